"""Acts on all that match: what was previewed and no more, and no further once they are stopped."""

import re
import threading

import pytest
from playwright.sync_api import expect

from onward import State
from onward.operate import bulk
from onward.operate.finding import PAGE
from tests.web.leaving import Held, noting
from tools.busy_store import Shop

MANY = 5_000
HELD_AT = 3  # the batch in the middle of which it is stopped


@pytest.fixture
def left():
    """Set when the dashboard has been told that the browser no longer reads the answer of a bulk act."""
    return threading.Event()


@pytest.fixture
def crowded(serve, url, left, monkeypatch):
    """The dashboard of a store with very many jobs that wait.  A preview counts all of them, however busy the machine is."""
    monkeypatch.setattr(bulk, "LOOKED_FOR", 60.0)
    shop = Shop(url)
    with shop.jobs:
        shop.send_receipt.enqueue_many([(number,) for number in range(MANY)])
    return serve(url, wrap=lambda asgi: noting(asgi, left))


@pytest.fixture
def page(visit, crowded):
    return crowded.opened(visit(crowded).page(), "jobs?filter=queue:mail")


@pytest.fixture
def held(monkeypatch):
    """A bulk act that waits in the middle of its third batch, until `go_on` is set; `ended`: nobody reads it."""
    held = Held(monkeypatch, at=HELD_AT)
    yield held
    held.go_on.set()


def asked(page, button):
    """The dialog that asks whether it is to be done."""
    page.get_by_role("button", name=button).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name=f"Cancel {MANY:,} jobs")).to_be_disabled()
    dialog.get_by_label(re.compile("^Type")).fill(str(MANY))
    expect(dialog.get_by_role("button", name=f"Cancel {MANY:,} jobs")).to_be_enabled()
    return dialog


@pytest.mark.parametrize("store", ["sqlite", "postgres", "redis"], indirect=True)
@pytest.mark.promise("S145")
def test_all_that_match_are_changed_and_none_that_came_later(page, crowded):
    dialog = asked(page, "Cancel all…")
    late = crowded.shop.send_receipt.enqueue(-1)
    dialog.get_by_label(re.compile("Reason")).fill("called off")

    dialog.get_by_role("button", name=f"Cancel {MANY:,} jobs").click()

    expect(dialog.get_by_text(f"{MANY:,} changed")).to_be_visible(timeout=60_000)
    assert crowded.jobs.counts()[State.CANCELLED] == MANY
    assert late.state() is State.AVAILABLE
    dialog.get_by_role("button", name="Close").last.click()
    expect(dialog).to_have_count(0)
    assert [entry.detail for entry in crowded.jobs.audit(act="bulk")] == ["cancel queue:mail; called off"]


@pytest.mark.promise("S145")
def test_stopping_it_stops_it_after_the_batch(page, crowded, held, left):
    dialog = asked(page, "Cancel all…")
    dialog.get_by_role("button", name=f"Cancel {MANY:,} jobs").click()
    expect(dialog.get_by_text(f"{PAGE * (HELD_AT - 1):,} changed")).to_be_visible()
    assert held.reached.wait(60)

    dialog.get_by_role("button", name="Stop").click()
    expect(dialog.get_by_role("status")).to_contain_text("Stopped")
    assert left.wait(60)
    held.go_on.set()

    assert held.ended.wait(60)
    assert held.batches == HELD_AT
    assert crowded.jobs.counts()[State.CANCELLED] == PAGE * HELD_AT


@pytest.mark.promise("S145")
def test_closing_the_tab_stops_it_too(page, crowded, held, left):
    dialog = asked(page, "Cancel all…")
    dialog.get_by_role("button", name=f"Cancel {MANY:,} jobs").click()
    assert held.reached.wait(60)

    page.close()
    assert left.wait(60)  # the browser closes its connections when it comes to that
    held.go_on.set()

    assert held.ended.wait(60)
    assert held.batches == HELD_AT
    assert crowded.jobs.counts()[State.CANCELLED] == PAGE * HELD_AT


def test_a_purge_wants_its_number_typed(visit, serve, url, seen):
    dashboard = serve(url)
    page = dashboard.opened(visit(dashboard).page(), "jobs?filter=state:dead job:pay_out")
    page.get_by_role("button", name="Purge all…").click()
    dialog = page.get_by_role("dialog")
    button = dialog.get_by_role("button", name="Purge 6 jobs")
    expect(button).to_be_disabled()

    dialog.get_by_label(re.compile("Type")).fill("7")
    expect(button).to_be_disabled()
    dialog.get_by_label(re.compile("Type")).fill("6")
    button.click()

    expect(dialog.get_by_text("6 changed")).to_be_visible()
    assert dashboard.jobs.get(seen.dead) is None
