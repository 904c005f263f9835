"""What people do to one job and to one queue."""

import json
import re

import pytest
from playwright.sync_api import expect

from onward import State
from tests.waiting import eventually

EVERY_STORE = pytest.mark.parametrize("store", ["sqlite", "postgres", "redis"], indirect=True)


def do(page, button, reason=None):
    """Press the button of an act on this page, and say yes to its dialog."""
    page.get_by_role("main").get_by_role("button", name=button, exact=True).click()
    dialog = page.get_by_role("dialog")
    if reason is not None:
        dialog.get_by_label(re.compile("Reason")).fill(reason)
    dialog.get_by_role("button", name=button, exact=True).click()
    expect(dialog).to_have_count(0)


def state(page, name):
    """The label of the job's state, beside its name."""
    return page.locator(".page-aside").get_by_text(name, exact=True)


@EVERY_STORE
def test_a_dead_job_is_replayed_and_then_ends_well(page, dashboard, seen):
    dashboard.go(page, f"jobs/{seen.dead}")
    expect(state(page, "Dead")).to_be_visible()
    dashboard.shop.broken = False

    do(page, "Replay", reason="the bank is back")

    expect(state(page, "Available")).to_be_visible()
    dashboard.jobs.drain("cards")
    expect(state(page, "Completed")).to_be_visible()
    expect(page.get_by_role("region", name="Result")).to_contain_text("seller 0 is paid")
    expect(page.get_by_role("region", name="Acts by hand")).to_contain_text("the bank is back")


@EVERY_STORE
def test_a_job_that_waits_for_its_retry_is_run_now(page, dashboard, seen):
    dashboard.go(page, f"jobs/{seen.later}")
    expect(state(page, "Scheduled")).to_be_visible()

    do(page, "Retry")

    expect(state(page, "Available")).to_be_visible()
    assert dashboard.jobs.get(seen.later).state is State.AVAILABLE


def test_a_job_is_cancelled_with_a_reason(page, dashboard, seen):
    dashboard.go(page, f"jobs/{seen.due}")

    do(page, "Cancel", reason="the customer <b>called</b>")

    expect(state(page, "Cancelled")).to_be_visible()
    assert dashboard.jobs.get(seen.due).reason == "the customer <b>called</b>"
    entry = dashboard.jobs.audit(job=seen.due)[0]
    assert (entry.act, entry.detail) == ("cancel", "the customer <b>called</b>")


def test_a_job_that_has_moved_on_is_said_to_have(page, watched, dashboard, seen):
    watched.expected.append("status of 409")
    dashboard.go(page, f"jobs/{seen.due}")
    expect(state(page, "Available")).to_be_visible()
    page.get_by_role("button", name="Pause updates").click()
    dashboard.jobs.drain("mail")

    page.get_by_role("main").get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel", exact=True).click()

    told = page.get_by_role("alert", name="Problems").or_(page.get_by_role("status", name="Messages"))
    expect(told.filter(has_text=re.compile("completed|ended|finished"))).to_be_visible()
    assert dashboard.jobs.get(seen.due).state is State.COMPLETED


def test_arguments_are_edited_and_the_old_job_stays_dead(page, watched, dashboard, seen):
    watched.expected.append("status of 422")
    dashboard.go(page, f"jobs/{seen.editable}")
    page.get_by_role("button", name="Edit and run again").first.click()
    dialog = page.get_by_role("dialog")
    field = dialog.get_by_label(re.compile("^row"))
    expect(field).to_have_value(re.compile("ada"))

    field.fill("42")
    dialog.get_by_role("button", name="Show the difference").click()
    expect(dialog.get_by_role("alert")).to_have_text(re.compile("^import_address: "))  # a name keeps its letters

    field.fill(json.dumps({"name": "ada", "street": "Gasse 1"}))
    dialog.get_by_role("button", name="Show the difference").click()
    expect(dialog.get_by_role("table", name="What changes")).to_contain_text("Gasse 1")
    dialog.get_by_role("button", name="Enqueue the new job").click()

    expect(dialog).to_have_count(0)
    expect(state(page, "Available")).to_be_visible()
    expect(page.get_by_role("link", name=seen.editable)).to_be_visible()
    dashboard.jobs.drain("mail")
    expect(page.get_by_role("region", name="Result")).to_contain_text("Gasse 1")
    assert dashboard.jobs.get(seen.editable).state is State.DISCARDED


def test_a_queue_is_paused_and_resumed(page, dashboard):
    page.get_by_role("link", name="Queues", exact=True).click()
    page.get_by_role("button", name="Pause queue mail").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(re.compile("Reason")).fill("too many letters")
    dialog.get_by_role("button", name="Pause", exact=True).click()

    expect(page.get_by_role("button", name="Resume queue mail")).to_be_visible()
    assert {queue.name for queue in dashboard.jobs.queues() if queue.paused} == {"letters", "mail"}

    page.get_by_role("button", name="Resume queue letters").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_role("button", name="Pause queue letters")).to_be_visible()
    page.get_by_role("link", name="Audit", exact=True).click()
    expect(page.get_by_role("main")).to_contain_text("too many letters")


def test_a_schedule_is_run_now_and_paused(page, dashboard):
    dashboard.go(page, "schedules/nightly-stock")
    expect(page.get_by_role("heading", level=1)).to_contain_text("nightly-stock")

    page.get_by_role("button", name="Run nightly-stock now").first.click()
    page.get_by_role("dialog").get_by_role("button", name=re.compile("^Run")).click()

    expect(page.get_by_role("dialog")).to_have_count(0)
    eventually(lambda: [job for job in dashboard.jobs.list(queue="reports") if job.name == "count_stock"])
    page.get_by_role("button", name="Pause nightly-stock").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_role("button", name="Resume nightly-stock").first).to_be_visible()
    assert dashboard.jobs.schedules.get("nightly-stock").paused_at is not None
