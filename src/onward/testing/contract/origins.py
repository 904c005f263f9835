"""What the record of a run tells of its failure and of its worker."""

from __future__ import annotations

from typing import Any

import pytest

from onward.backend import Failure, Lease, RanBy, Session, Settlement
from onward.contract.description import WorkerDescription
from onward.testing.contract.builders import a_claim, a_lease, a_turn, an_envelope
from onward.testing.contract.capabilities import needs

__all__ = ["RunOriginsContract"]

_WORKER = RanBy("web-3", 4711, "2026.11")


@needs("inspection", "groups_deaths")
class RunOriginsContract:
    def test_the_record_of_a_run_has_its_fingerprint_and_its_worker(self, backend):
        lease = a_lease(backend)

        backend.settle([Settlement.nack(lease, 0, failure=_failure("0123456789ab"), by=_WORKER)])

        (run,) = backend.get(lease.envelope.id).runs
        assert (run.fingerprint, run.by) == ("0123456789ab", _WORKER)
        assert run.failure == _failure("0123456789ab")

    def test_a_success_with_a_failure_besides_has_them_too(self, backend):
        lease = a_lease(backend)

        backend.settle([Settlement.ack(lease, failure=_failure("0123456789ab"), by=_WORKER)])

        (run,) = backend.get(lease.envelope.id).runs
        assert (run.fingerprint, run.by) == ("0123456789ab", _WORKER)

    def test_a_record_without_them_has_none(self, backend):
        lease = a_lease(backend)

        backend.settle([Settlement.nack(lease, 0, failure=Failure("ValueError", "no"))])

        (run,) = backend.get(lease.envelope.id).runs
        assert (run.fingerprint, run.by) == ("", None)

    @needs("sessions")
    @pytest.mark.parametrize("expires", [False, True], ids=["ended", "expired"])
    def test_a_crash_names_the_worker_whose_session_was_reaped(self, backend, clock, expires):
        description = WorkerDescription(queues=("default",), build="2026.11").encoded()
        backend.open_session(Session(owner="worker", host="web-3", pid=4711, description=description))
        lease = _begun(backend)

        if expires:
            clock.advance(31)
        backend.reap(owner=None if expires else "worker")

        (run,) = backend.get(lease.envelope.id).runs
        assert (run.fingerprint, run.by) == ("crashed", _WORKER)

    @needs("sessions")
    def test_a_crash_of_a_session_that_says_nothing_names_no_worker(self, backend):
        backend.open_session(Session(owner="worker"))
        lease = _begun(backend)

        backend.reap(owner="worker")

        (run,) = backend.get(lease.envelope.id).runs
        assert run.by is None


def _failure(fingerprint: str) -> Failure:
    return Failure("RuntimeError", "it broke", "Traceback: somewhere\n", fingerprint)


def _begun(backend: Any) -> Lease:
    """Enqueue a job and claim it in the session that is open."""
    backend.enqueue([an_envelope()])
    lease: Lease = backend.turn(a_turn(claim=a_claim())).leases[0]
    return lease
