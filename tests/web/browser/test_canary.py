"""The canary: one dead job, then ten, then the rest, and none after one that fails again."""

import pytest
from playwright.sync_api import expect

from onward import State


@pytest.fixture
def dialog(page, dashboard):
    """The dialog of the canary on the largest group; a worker of the shop runs meanwhile."""
    page.get_by_role("link", name="Dead letters").click()
    page.get_by_role("table", name="Groups of dead jobs").get_by_role("link", name="pay_out").click()
    page.get_by_role("button", name="Canary…").click()
    with dashboard.jobs.worker(queues=["cards"]):
        yield page.get_by_role("dialog", name="Canary")


def begin(dialog):
    dialog.get_by_role("button", name="Begin with one").click()


def dead(dashboard):
    return [job for job in dashboard.jobs.list(state=State.DISCARDED, limit=100) if job.name == "pay_out"]


@pytest.mark.promise("S133")
def test_it_stops_at_the_first_that_fails_again(page, dashboard, dialog):
    begin(dialog)

    expect(dialog.get_by_text("1 replayed, 0 ended well")).to_be_visible(timeout=30_000)
    expect(dialog.get_by_role("button", name="Close").last).to_be_visible()
    expect(dialog.get_by_role("status")).to_contain_text("fail")
    assert len(dead(dashboard)) == 6
    assert sum(job.attempts > 2 for job in dead(dashboard)) <= 1


def test_it_goes_through_when_the_cause_is_gone(page, watched, dashboard, dialog):
    watched.expected.append("status of 404")  # the group behind the dialog is no more
    dashboard.shop.broken = False

    begin(dialog)

    expect(dialog.get_by_text("6 replayed, 6 ended well")).to_be_visible(timeout=30_000)
    dialog.get_by_role("button", name="Close").last.click()
    assert dead(dashboard) == []
