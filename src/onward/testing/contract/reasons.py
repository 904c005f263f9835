"""Why a job with limits waits: the limit that binds, the runs that take its slots, its next token, until when it is shut."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onward.backend import Session
from onward.base.clock import from_micros
from onward.contract.description import WorkerDescription
from onward.job.settlement import GateChange, Settlement
from onward.job.states import State
from onward.operate.why.reason import Reason
from onward.testing.contract.builders import a_claim, ids, micros, some_envelopes
from onward.testing.contract.capabilities import needs
from onward.testing.contract.lanes import a_limit, claimed, declare, in_lane
from onward.testing.machine.explained import explainer_of, reasons_bind

__all__ = ["ReasonsContract"]


def why(backend: Any, job_id: str) -> Reason:
    return explainer_of(backend).why(job_id)


@needs("lanes", "inspection")
@pytest.mark.promise("L57")
class ReasonsContract:
    def test_a_job_of_an_unserved_queue_waits_for_a_worker_before_its_limit(self, backend):
        declare(backend, a_limit(running=1))
        first, second = in_lane(2)
        backend.enqueue([first, second])
        claimed(backend)

        reason = why(backend, second.id)

        assert (reason.code, reason.then[0]) == ("unserved", "limited")

    def test_a_full_limit_is_named_with_the_runs_that_fill_it(self, backend):
        _serve(backend, a_limit(running=2))
        envelopes = in_lane(3)
        backend.enqueue(envelopes)
        leases = claimed(backend)

        reason = why(backend, envelopes[2].id)

        assert (reason.code, reason.facts["running"], reason.facts["of"]) == ("limited", 2, 2)
        assert sorted(reason.facts["ids"]) == sorted(ids(leases))
        assert "'render'" in reason.text
        assert reason.fix

    def test_a_full_key_is_named_with_its_own_runs(self, backend):
        _serve(backend, a_limit(), a_limit(kind="key", running=1))
        first, second = in_lane(2, "acme")
        backend.enqueue([first, second, *in_lane(1, "other")])
        claimed(backend)

        reason = why(backend, second.id)

        assert (reason.code, reason.facts["kind"], reason.facts["ids"]) == ("limited", "key", [first.id])
        assert "render/acme" in reason.text

    def test_a_full_queue_is_named(self, backend):
        _serve(backend, a_limit("default", "queue", running=1))
        first, second = some_envelopes(2)
        backend.enqueue([first, second])
        claimed(backend)

        reason = why(backend, second.id)

        assert (reason.code, reason.facts["kind"], reason.facts["ids"]) == ("limited", "queue", [first.id])

    def test_a_rate_is_named_with_its_next_token(self, backend, clock):
        _serve(backend, a_limit(rate="1/m", burst=1))
        first, second = in_lane(2)
        backend.enqueue([first, second])
        claimed(backend)

        reason = why(backend, second.id)

        assert reason.code == "throttled"
        assert reason.until == from_micros(clock.micros() + micros(60))
        clock.advance(60)
        assert why(backend, second.id).code == "first_in_line"

    def test_a_job_that_was_booked_for_a_token_of_its_key_waits_for_that(self, backend, clock):
        _serve(backend, a_limit(), a_limit(kind="key", rate="1/m", burst=1))
        first, second = in_lane(2, "acme")
        backend.enqueue([first, second])
        claimed(backend)
        claimed(backend)
        assert backend.get(second.id).state is State.SCHEDULED

        reason = why(backend, second.id)

        assert reason.code == "throttled"
        assert reason.facts["kind"] == "key"
        assert reason.until == from_micros(clock.micros() + micros(60))

    def test_what_a_run_has_shut_is_named_with_its_end(self, backend, clock):
        _serve(backend, a_limit())
        first, second = in_lane(2)
        backend.enqueue([first])
        (lease,) = claimed(backend)
        shutting = replace(Settlement.ack(lease), gate=GateChange("render/", 25))
        backend.enqueue([second])
        backend.settle([shutting])

        reason = why(backend, second.id)

        assert (reason.code, reason.until) == ("shut", from_micros(clock.micros() + micros(25)))

    def test_what_a_person_has_shut_is_open_when_that_person_opens_it(self, backend):
        _serve(backend, a_limit())
        envelope = in_lane(1)[0]
        backend.enqueue([envelope])
        backend.shut("render/")

        shut = why(backend, envelope.id)
        backend.shut("render/", opened=True)

        assert (shut.code, shut.until) == ("shut", None)
        assert "onward limit open render" in shut.fix
        assert why(backend, envelope.id).code == shut.then[0] == "first_in_line"

    def test_reasons_bind_where_limits_do(self, backend):
        _serve(backend, a_limit(running=1), a_limit(kind="key", running=1), a_limit("slow", "queue", running=1))
        envelopes = [*in_lane(2, "acme"), *in_lane(2, "other"), *some_envelopes(2, queue="slow"), *some_envelopes(2)]
        backend.enqueue(envelopes)
        backend.claim(a_claim(queues=("default", "slow"), limit=3))

        seen = reasons_bind(backend, [job.id for job in envelopes], ("default", "slow"))

        assert seen["explained, limited"] > 0
        assert seen["explained, running"] > 0


def _serve(backend: Any, *limits: Any) -> None:
    """Open the session of a worker that serves the queue and says so."""
    description = WorkerDescription(queues=("default",), concurrency=100).encoded()
    lease_for = timedelta(hours=1)
    backend.open_session(Session(owner="described", lease_for=lease_for, limits=limits, description=description))
