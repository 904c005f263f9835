"""Everything that people do there, without a mouse."""

import re

import pytest
from playwright.sync_api import expect

from onward import State
from tests.web.browser.serving import TOKEN

PAGES = {"q": "Queues", "j": "Jobs", "d": "Dead letters", "w": "Workers", "h": "Health", "o": "Overview"}


def tab_to(page, name, presses=80):
    """Press Tab until the focus is on what has this name, as a person would."""
    for _ in range(presses):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            "(document.activeElement?.getAttribute('aria-label') || document.activeElement?.labels?.[0]?.textContent"
            " || document.activeElement?.textContent || '').trim()"
        )
        if re.search(name, focused):
            return
    raise AssertionError(f"Tab never comes to {name}")


@pytest.mark.promise("S148")
def test_signing_in_and_out(watched, dashboard):
    watched.expected.append("status of 401")
    page = watched.page()
    page.goto(dashboard.url())
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

    tab_to(page, "^Token")
    page.keyboard.type(TOKEN)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()

    tab_to(page, "^Sign out")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


@pytest.mark.promise("S148")
@pytest.mark.only_looks
def test_letters_lead_to_pages(page):
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    for letter, name in {
        "q": "Queues",
        "j": "Jobs",
        "d": "Dead letters",
        "w": "Workers",
        "h": "Health",
        "o": "Overview",
    }.items():
        page.keyboard.press("g")
        page.keyboard.press(letter)
        expect(page.get_by_role("heading", name=name, level=1)).to_be_focused()

    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.promise("S148")
def test_letters_can_be_switched_off(page):
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    page.keyboard.press("?")
    tab_to(page, "^Single-letter keys")
    page.keyboard.press("Space")
    page.keyboard.press("Escape")

    page.keyboard.press("g")
    page.keyboard.press("q")
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.promise("S148")
def test_a_job_is_found_opened_and_replayed(page, dashboard, seen):
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.get_by_role("heading", name="Jobs", level=1)).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.type("job:import_address")
    page.keyboard.press("Enter")
    expect(page.get_by_role("table", name="Jobs").get_by_role("row")).to_have_count(2)

    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(seen.editable))
    expect(page.get_by_role("heading", level=1)).to_contain_text("import_address")
    page.keyboard.press("r")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    tab_to(page, "^(Replay|Retry)")
    page.keyboard.press("Enter")

    expect(dialog).to_have_count(0)
    expect(page.get_by_role("main").get_by_text("Available", exact=True).first).to_be_visible()
    assert dashboard.jobs.get(seen.editable).state is State.AVAILABLE


@pytest.mark.promise("S148")
def test_rows_are_selected_and_cancelled(page, dashboard, seen):
    dashboard.go(page, "jobs?filter=state:available queue:carriers")
    expect(page.get_by_role("table", name="Jobs").get_by_role("row")).to_have_count(2)
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_text("1 job selected")).to_be_visible()
    page.keyboard.press("c")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    tab_to(page, "^Type 1")
    page.keyboard.type("1")
    page.keyboard.press("Enter")

    expect(dialog.get_by_text("1 changed")).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("table", name="Jobs")).to_have_count(0)
    assert dashboard.jobs.get(seen.limited).state is State.CANCELLED


@pytest.mark.promise("S148")
def test_a_queue_is_paused_and_the_focus_returns(page, dashboard):
    dashboard.go(page, "queues/mail")
    button = page.get_by_role("button", name="Pause queue mail")
    expect(button).to_be_visible()
    tab_to(page, "^Pause queue mail")
    page.keyboard.press("Enter")
    tab_to(page, "^Pause$")
    page.keyboard.press("Enter")

    expect(page.get_by_role("button", name="Resume queue mail")).to_be_visible()
    assert [queue.name for queue in dashboard.jobs.queues() if queue.paused] == ["letters", "mail"]


@pytest.mark.promise("S148")
@pytest.mark.only_looks
def test_a_dialog_is_left_by_escape_and_nothing_happens(page, dashboard, seen):
    dashboard.go(page, f"jobs/{seen.due}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("send_receipt")
    page.keyboard.press("c")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")

    expect(page.get_by_role("dialog")).to_have_count(0)
    assert dashboard.jobs.get(seen.due).state is State.AVAILABLE


@pytest.mark.promise("S148")
@pytest.mark.only_looks
def test_the_content_is_reached_with_one_key(page):
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
