"""No data of a job is ever script: texts that try to be markup, on every page, in a real browser.

A dialog, a report of the content policy or of Trusted Types, an error on the console: each fails the test (`watched`).
"""

import json

import pytest
from playwright.sync_api import expect

from onward import State
from tests.web.browser import hostile_store
from tests.web.browser.pages import PLAIN, shown
from tests.web.browser.serving import served
from tests.web.browser.shared import Shared

INJECTED = (
    "main img:not([src*='static/']), main script, iframe, object, embed, [onclick], [onload], [onerror], [style*=url],"
    "a[href^='javascript'], a[href^='data']"
)


pytestmark = pytest.mark.only_looks


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    return f"sqlite:///{tmp_path_factory.mktemp('hostile') / 'jobs.db'}?durability=relaxed"


@pytest.fixture(scope="module")
def hostile(url):
    return hostile_store.fill(url)


@pytest.fixture(scope="module")
def shared(kept, url, hostile):
    with served(url, title=hostile_store.TEXTS[0]) as dashboard:
        shared = Shared(kept, dashboard)
        yield shared
        shared.close()


@pytest.fixture
def seen():
    """None of the busy store."""


@pytest.mark.promise("S141")
def test_no_text_becomes_markup_on_any_page(page, dashboard, hostile):
    ids, flow = hostile
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    groups = dashboard.jobs.dead_letters.groups()
    details = [f"jobs/{ids[0]}", *(f"jobs/{job}" for job in ids[1::4]), *(f"jobs/{job}" for job in ids[-4:])]
    seen = {}
    for path in [
        *PLAIN.values(),
        "queues/mail",
        "queues/later",
        f"flows/{flow}",
        *(f"dead/{group.job}/{group.fingerprint}" for group in groups),
        "schedules/hostile",
        *details,
        f"jobs?filter={groups[0].job}",
    ]:
        shown(page, dashboard, path)
        assert page.locator(INJECTED).count() == 0, path
        seen[path] = page.locator("body").inner_text()

    for path in (f"jobs/{ids[0]}", f"jobs/{ids[-1]}", "audit", "workers", "dead", "schedules/hostile"):
        assert hostile_store.MARK in seen[path], path
    assert "<img src=x onerror=" in seen[f"jobs/{ids[0]}"]


@pytest.mark.promise("S141")
def test_no_text_becomes_markup_in_a_dialog(page, dashboard, hostile):
    ids, _ = hostile
    failed = next(job for job in ids if dashboard.jobs.get(job).state is State.DISCARDED)
    dialog = page.get_by_role("dialog")
    shown(page, dashboard, "jobs?filter=state:dead job:fails")
    page.get_by_role("button", name="Replay all…").click()
    dialog.get_by_text("Some of them").click()
    expect(dialog.get_by_role("table")).to_contain_text(hostile_store.MARK)
    assert page.locator(INJECTED).count() == 0

    shown(page, dashboard, f"jobs/{failed}")
    page.get_by_role("button", name="Edit and run again").click()
    dialog.get_by_role("textbox").first.fill(json.dumps({hostile_store.EVERYTHING: 1}))
    dialog.get_by_role("button", name="Show the difference").click()
    expect(dialog.get_by_role("table", name="What changes")).to_contain_text("<img src=x onerror=")
    expect(dialog.get_by_text("Check the names")).to_contain_text("and without '<img src=x onerror=")
    assert page.locator(INJECTED).count() == 0
    page.keyboard.press("Escape")


@pytest.mark.promise("S141")
def test_an_address_is_no_script_either(page, watched, dashboard):
    watched.expected.append("status of 40")
    for path in (
        "jobs?filter=<img src=x onerror=alert(1)>",
        "jobs/<script>alert(1)</script>",
        "queues/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E",
        "queues/..%2f..%2fapi",
        "nowhere/%00/%ff",
        "jobs?filter=%22%3E%3Csvg%20onload%3Dalert(1)%3E#javascript:alert(1)",
    ):
        page.goto(dashboard.url(path))
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.locator(INJECTED).count() == 0, path


@pytest.mark.promise("S141")
def test_the_policy_would_stop_what_slipped_through(page, watched):
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    watched.expected.append(".")

    refused = page.evaluate(
        """() => {
            const refused = [];
            const attempts = {
              html: () => { document.body.innerHTML = '<b>x</b>'; },
              script: () => { document.body.append(Object.assign(document.createElement('script'), { text: 'ran = 1' })); },
              remote: () => { const s = document.createElement('script'); s.src = 'http://evil.example/x.js'; },
            };
            for (const [name, attempt] of Object.entries(attempts)) {
              try { attempt(); } catch (error) { refused.push(name); }
            }
            return refused;
        }"""
    )

    assert refused == ["html", "script", "remote"]
    assert page.evaluate("window.ran") is None
