"""The first sentence of a job's page says why it is where it is: the same as `jobs.why`, with the button that follows."""

import pytest
from playwright.sync_api import expect

from onward import State
from onward.operate.why.reason import CODES
from tests.operate.why_stories import Application, tell


def why(page):
    return page.get_by_role("region", name="Why it is where it is")


def told(text):
    """What the page shows of a text: commands are set in another type, without marks around them."""
    return text.replace("`", "")


@pytest.mark.promise("S130")
def test_the_page_says_of_every_reason_what_the_code_says(visit, serve, tmp_path):
    ids, instant = tell(tmp_path / "jobs.db")
    dashboard = serve(Application(tmp_path / "jobs.db", instant))
    watched = visit(dashboard)
    watched.expected.append("status of 404")  # of the job that is gone
    page = dashboard.opened(watched.page())
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()

    for code in CODES:
        reason = dashboard.jobs.why(ids[code])
        assert reason.code == code
        dashboard.go(page, f"jobs/{ids[code]}")
        said = page.get_by_role("main").get_by_role("alert") if code == "gone" else why(page)
        expect(said).to_contain_text(told(reason.text))
        if reason.fix:
            expect(said).to_contain_text(told(reason.fix), ignore_case=True)  # a notice begins with a capital


@pytest.mark.parametrize("store", ["postgres", "redis"], indirect=True)
@pytest.mark.promise("S130")
def test_the_page_says_so_on_every_store(page, dashboard, seen):
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    for job_id in (seen.dead, seen.cancelled, seen.paused, seen.limited):
        dashboard.go(page, f"jobs/{job_id}")
        reason = dashboard.jobs.why(job_id)
        expect(why(page)).to_contain_text(told(reason.text))
        expect(why(page)).to_contain_text(told(reason.fix))


def test_a_paused_queue_is_resumed_from_there(page, dashboard, seen):
    dashboard.go(page, f"jobs/{seen.paused}")
    expect(why(page)).to_contain_text("paused")

    why(page).get_by_role("button", name="Resume letters", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Resume", exact=True).click()

    expect(why(page)).not_to_contain_text("paused")
    assert not [queue for queue in dashboard.jobs.queues() if queue.paused]


def test_a_job_that_is_not_there_is_explained_too(page, watched, dashboard):
    watched.expected.append("status of 404")
    dashboard.go(page, f"jobs/{'0' * 32}")

    expect(page.get_by_role("main")).to_contain_text("no job")


def test_the_reason_moves_on_with_the_job(page, dashboard, seen):
    dashboard.go(page, f"jobs/{seen.limited}")
    expect(why(page)).to_contain_text("book_parcel")
    before = why(page).inner_text()

    dashboard.jobs.cancel(seen.limited)

    expect(page.locator(".page-aside").get_by_text("Cancelled", exact=True)).to_be_visible()
    expect(why(page)).not_to_have_text(before)
    assert dashboard.jobs.get(seen.limited).state is State.CANCELLED
