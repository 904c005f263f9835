"""The first sentence of a job's page says why it is where it is: the same as `jobs.why`, with the button that follows."""

import pytest
from playwright.sync_api import expect

from onward import State

EVERY_STORE = pytest.mark.parametrize("store", ["sqlite", "postgres", "redis"], indirect=True)
STORIES = (
    "done",
    "retried",
    "dead",
    "editable",
    "crashed",
    "cancelled",
    "later",
    "due",
    "paused",
    "limited",
    "running",
)


def why(page):
    return page.get_by_role("region", name="Why it is where it is")


def told(text):
    """A sentence without the marks around what is to be typed, and without numbers, which move with the clock."""
    return text.replace("`", "")


@EVERY_STORE
@pytest.mark.promise("S130")
def test_the_page_says_what_the_code_says(page, dashboard, seen):
    codes = set()
    for story in STORIES:
        page.goto(dashboard.url(f"jobs/{getattr(seen, story)}"))
        reason = dashboard.jobs.why(getattr(seen, story))
        codes.add(reason.code)
        words = told(reason.text).split()
        beginning = " ".join(
            words[: next((at for at, word in enumerate(words) if any(map(str.isdigit, word))), len(words))]
        )
        expect(why(page)).to_contain_text(beginning or words[0])
        if reason.fix:
            expect(why(page)).to_contain_text(told(reason.fix).split("  #")[0].split("\n")[0])
    assert len(codes) >= 7


def test_a_paused_queue_is_resumed_from_there(page, dashboard, seen):
    page.goto(dashboard.url(f"jobs/{seen.paused}"))
    expect(why(page)).to_contain_text("paused")

    why(page).get_by_role("button", name="Resume letters", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Resume", exact=True).click()

    expect(why(page)).not_to_contain_text("paused")
    assert not [queue for queue in dashboard.jobs.queues() if queue.paused]


def test_a_job_that_is_not_there_is_explained_too(page, watched, dashboard):
    watched.expected.append("status of 404")
    page.goto(dashboard.url(f"jobs/{'0' * 32}"))

    expect(page.get_by_role("main")).to_contain_text("no job")


def test_the_reason_moves_on_with_the_job(page, dashboard, seen):
    page.goto(dashboard.url(f"jobs/{seen.limited}"))
    expect(why(page)).to_contain_text("book_parcel")
    before = why(page).inner_text()

    dashboard.jobs.cancel(seen.limited)

    expect(page.locator(".page-aside").get_by_text("Cancelled", exact=True)).to_be_visible()
    expect(why(page)).not_to_have_text(before)
    assert dashboard.jobs.get(seen.limited).state is State.CANCELLED
