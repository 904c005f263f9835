"""Jobs that sleep by the clock of their store, while it runs: when one is due, its sleep is over."""

import pytest

from onward import Onward
from onward.backend import Settlement
from onward.testing.contract.builders import a_claim, some_envelopes
from tests.application.every_store import redis_server, store, url  # noqa: F401
from tests.applications import folder  # noqa: F401

JOBS = 50


@pytest.mark.promise("S66")
def test_of_many_that_go_to_sleep_together_each_is_due_exactly_when_its_note_says(url):  # noqa: F811
    with Onward(url) as jobs:
        backend = jobs.backend
        jobs.connect()
        backend.enqueue(some_envelopes(JOBS))
        leases = backend.claim(a_claim(limit=JOBS))
        backend.settle([Settlement.snooze(lease, 60, notes=(("~nap", b"60000000"),)) for lease in leases])

        early = []
        for lease in leases:
            (note,) = backend.notes(lease.envelope.id)
            early.append(note.at + 60_000_000 - backend.get(lease.envelope.id).available_at)

    assert early == [0] * JOBS
