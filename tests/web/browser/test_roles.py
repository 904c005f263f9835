"""Three roles, and people who see some queues only: what the page offers is what the server allows."""

import pytest
from playwright.sync_api import expect

from onward import State
from onward.web import User
from tests.web.browser.serving import served

PEOPLE = {
    "vera": User("vera", "viewer"),
    "olaf": User("olaf", "operator"),
    "ada": User("ada", "admin"),
    "quentin": User("quentin", "operator", queues=["mail"]),
}


@pytest.fixture(scope="module")
def dashboard(shared_url):
    """Who somebody is stands in a header, as behind a proxy.  No test changes the store."""
    with served(shared_url, auth=lambda request: PEOPLE.get(request.headers.get("x-person", ""))) as dashboard:
        yield dashboard


@pytest.fixture
def page_of(visit, dashboard):
    def page_of(name, path="", expected=()):
        watched = visit(dashboard, extra_http_headers={"X-Person": name})
        watched.expected += expected
        page = watched.page()
        page.goto(dashboard.url(path))
        return page

    return page_of


def offered(page, name):
    return page.get_by_role("main").get_by_role("button", name=name, exact=True)


@pytest.mark.promise("S139")
@pytest.mark.parametrize(
    ("name", "may"), [("vera", set()), ("olaf", {"Replay"}), ("ada", {"Replay", "Edit and run again"})]
)
def test_a_role_is_offered_what_it_may_do(page_of, dashboard, seen, name, may):
    page = page_of(name, f"jobs/{seen.editable}")
    expect(page.get_by_text(name, exact=True)).to_be_visible()

    for act in ("Replay", "Edit and run again"):
        button = offered(page, act).first
        expect(button).to_be_visible()
        if act in may:
            expect(button).not_to_have_attribute("aria-disabled", "true")
        else:
            expect(button).to_have_attribute("aria-disabled", "true")
            button.click(force=True)  # it is grey, and says why when it is pressed
            expect(page.get_by_role("status", name="Messages")).to_contain_text("role")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert dashboard.jobs.get(seen.editable).state is State.DISCARDED


@pytest.mark.promise("S139")
def test_the_server_refuses_what_the_page_would_not_send(page_of, dashboard, seen):
    page = page_of("vera", expected=["status of 403"])
    expect(page.get_by_text("vera", exact=True)).to_be_visible()

    status = page.evaluate(
        "url => fetch(url, {method: 'POST', body: '{}', headers: {'content-type': 'application/json'}})"
        ".then((answer) => answer.status)",
        dashboard.url(f"api/v1/jobs/{seen.dead}/replay"),
    )

    assert status == 403
    assert dashboard.jobs.get(seen.dead).state is State.DISCARDED


@pytest.mark.promise("S139")
def test_a_person_with_one_queue_sees_that_queue(page_of, seen):
    page = page_of("quentin", "queues", expected=["status of 40"])
    expect(page.get_by_role("main").get_by_role("link", name="mail").first).to_be_visible()
    expect(page.get_by_role("main").get_by_role("link", name="cards")).to_have_count(0)

    page.goto(page.url.replace("queues", f"jobs/{seen.dead}"))
    expect(page.get_by_role("main").get_by_role("alert")).to_be_visible()
    expect(page.get_by_text("pay_out")).to_have_count(0)


def test_nobody_who_is_unknown_sees_anything(page_of):
    page = page_of("mallory", expected=["status of 40"])

    expect(page.get_by_text("send_receipt")).to_have_count(0)
    expect(page.get_by_role("navigation", name="Pages")).to_have_count(0)


def test_read_only_offers_nothing_to_an_administrator(visit, serve, url, seen):
    dashboard = serve(url, auth=lambda _: PEOPLE["ada"], read_only=True)
    page = visit(dashboard).page()
    page.goto(dashboard.url(f"jobs/{seen.dead}"))

    expect(page.get_by_text("read only")).to_be_visible()
    expect(offered(page, "Replay").first).to_have_attribute("aria-disabled", "true")
