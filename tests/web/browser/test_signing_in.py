"""Who gets in, and what each role may do there."""

import re

import pytest
from playwright.sync_api import expect

from tests.web.browser.serving import TOKEN

REFUSED = r"status of 401"  # the browser tells every refusal to its console


@pytest.fixture
def page(watched, dashboard):
    watched.expected.append(REFUSED)
    page = watched.page()
    page.goto(dashboard.url())
    return page


def sign_in(page, token):
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


@pytest.mark.parametrize("store", ["sqlite", "postgres", "redis"], indirect=True)
def test_a_token_lets_a_person_in_until_they_sign_out(page, dashboard):
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_text("send_receipt")).to_have_count(0)

    sign_in(page, "not the token")
    expect(page.get_by_role("alert")).to_contain_text("token")

    sign_in(page, TOKEN)
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()

    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto(dashboard.url("jobs"))
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_the_token_of_a_printed_address_leaves_the_address_at_once(page, dashboard):
    dashboard.opened(page, "jobs")

    expect(page.get_by_role("heading", name="Jobs", level=1)).to_be_visible()
    expect(page).to_have_url(re.compile(r"/jobs$"))
    assert TOKEN not in page.evaluate("JSON.stringify([...Object.entries(localStorage), document.cookie])")


def test_a_page_that_was_asked_for_is_shown_after_signing_in(page, dashboard):
    page.goto(dashboard.url("dead"))
    sign_in(page, TOKEN)

    expect(page.get_by_role("heading", name="Dead letters", level=1)).to_be_visible()


def test_the_cookie_is_for_this_dashboard_and_no_script(page, watched, dashboard):
    sign_in(page, TOKEN)
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()

    (cookie,) = watched.context.cookies()

    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert TOKEN not in cookie["value"]
    assert page.evaluate("document.cookie") == ""
