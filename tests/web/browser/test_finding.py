"""Finding a job, and reading what became of it."""

import re

import pytest
from playwright.sync_api import expect

from tools.busy_store import SECRET


def search(page, text):
    page.get_by_role("link", name="Jobs", exact=True).click()
    page.get_by_role("searchbox", name="Filter").fill(text)
    page.get_by_role("button", name="Search").click()


@pytest.mark.parametrize("store", ["sqlite", "postgres", "redis"], indirect=True)
def test_a_job_is_found_by_an_argument_and_a_traceback_is_read_without_the_secret_in_it(page, dashboard, seen):
    search(page, "job:charge_* arg.order:4711")
    table = page.get_by_role("table", name="Jobs")
    expect(table.get_by_role("row")).to_have_count(2)  # with the head

    table.get_by_role("link", name="charge_card").click()

    expect(page).to_have_url(re.compile(f"jobs/{seen.retried}$"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("charge_card")
    expect(page.get_by_text("4711").first).to_be_visible()

    dashboard.go(page, f"jobs/{seen.dead}")

    traceback = page.get_by_role("group", name="Traceback").first
    expect(traceback).to_contain_text("TimeoutError")
    expect(traceback).to_contain_text("in pay_out")
    expect(page.get_by_text("***").first).to_be_visible()
    assert SECRET not in page.content()


@pytest.mark.only_looks
def test_a_filter_travels_in_the_address(page, dashboard, watched):
    search(page, "state:dead job:pay_out")
    expect(page.get_by_role("table", name="Jobs").get_by_role("row")).to_have_count(7)

    other = watched.page()
    other.goto(page.url)

    expect(other.get_by_role("searchbox", name="Filter")).to_have_value("state:dead job:pay_out")
    expect(other.get_by_role("table", name="Jobs").get_by_role("row")).to_have_count(7)


@pytest.mark.only_looks
def test_a_filter_that_cannot_be_read_says_where(page, watched):
    watched.expected.append("status of 400")

    search(page, "state:dead queu:mail")

    expect(page.get_by_role("alert").filter(has_text="column")).to_contain_text("queue")
