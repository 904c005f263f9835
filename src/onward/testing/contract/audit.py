"""The audit trail: an entry is stored with the act that it is about, for what that changed, and goes with its job."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from onward.backend import EACH_JOB, KEPT_FOR, AuditEntry, AuditQuery, Look, Query, ScheduleChange, ScheduleRow
from onward.base.clock import SECOND
from onward.flow.limits import Bounds
from onward.job.membership import FlowPlan, NodePlan
from onward.job.states import FINISHED, State
from onward.testing.contract.builders import a_claim, a_lease, an_envelope, an_id, some_envelopes
from onward.testing.contract.capabilities import needs
from onward.testing.contract.holds import ONCE
from onward.testing.contract.stage import Stage

__all__ = ["AuditContract", "AuditLifeContract", "AuditPagesContract", "AuditSteeringContract"]

_MINE = "sends 1.1 to another store"
_DISCARDED = frozenset({State.DISCARDED})


def an_entry(act: str = "cancel", **fields: Any) -> AuditEntry:
    given: dict[str, Any] = {"at": 1_000, "who": "ann@host", "act": act, "detail": "too öld \\ 'x'"} | fields
    return AuditEntry(**given)


def each(act: str = "cancel", *jobs: str, **fields: Any) -> AuditEntry:
    return an_entry(act, job_id=EACH_JOB, signatures={job: f"signed {job}" for job in jobs}, **fields)


def trail(backend: Any, **query: Any) -> list[AuditEntry]:
    return list(backend.look(Look(audit=AuditQuery(**query))).audit)


def told(backend: Any, **query: Any) -> list[tuple[str, str]]:
    """Return act and job of each entry, the newest first."""
    return [(entry.act, entry.job_id) for entry in trail(backend, **query)]


@needs("audit", "inspection")
@pytest.mark.promise("S136")
class AuditContract:
    def test_an_entry_comes_back_as_it_was_given(self, backend):
        job = an_id()
        backend.enqueue([an_envelope(id=job)])
        backend.cancel([job], "no", audit=[each("cancel", job, ref="bulk 7")])

        (entry,) = trail(backend, job_id=job)
        assert entry == an_entry(
            "cancel", job_id=job, ref="bulk 7", signature=f"signed {job}", number=entry.number, signatures={}
        )

    def test_a_call_without_entries_leaves_none(self, backend):
        backend.enqueue([envelope := an_envelope(delay=60)])
        backend.retry([envelope.id])
        backend.cancel([envelope.id], "no")
        backend.replay(Query(ids=(envelope.id,), limit=1))
        backend.pause("default")
        backend.pause("default", paused=False)

        assert trail(backend) == []
        assert not backend.look(Look(counts=True)).audit

    def test_each_job_that_a_cancellation_changed_has_an_entry(self, backend):
        waiting, running, finished = some_envelopes(3)
        backend.enqueue([running])
        backend.claim(a_claim())
        backend.enqueue([waiting, finished])
        backend.cancel([finished.id], "earlier")
        backend.cancel([waiting.id, running.id, finished.id, an_id()], "no", audit=[each()])

        assert sorted(told(backend)) == sorted([("cancel", waiting.id), ("cancel", running.id)])

    def test_a_job_that_was_asked_to_cancel_before_is_not_changed_again(self, backend):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "first", audit=[each(at=1)])
        states = backend.cancel([lease.envelope.id], "second", audit=[each(at=2), an_entry("bulk", at=2)])

        assert list(states) == [State.EXECUTING]
        assert [entry.at for entry in trail(backend)] == [1]

    def test_each_job_that_became_due_has_an_entry(self, backend):
        later, due = an_envelope(delay=60), an_envelope()
        backend.enqueue([later, due])

        assert list(backend.retry([later.id, due.id, an_id()], audit=[each("retry")])) == [True, False, False]
        assert told(backend) == [("retry", later.id)]

    def test_each_job_that_was_replayed_has_an_entry(self, backend, clock):
        dead = [Stage(backend, clock, queue=queue).bring(State.DISCARDED).id for queue in ("a", "b")]
        done = Stage(backend, clock).bring(State.COMPLETED).id
        backend.replay(Query(ids=(*dead, done), limit=3), audit=[each("replay")])

        assert sorted(told(backend)) == sorted(("replay", job) for job in dead)

    def test_each_job_that_was_created_has_an_entry(self, backend):
        old, new = an_envelope(), an_envelope()
        backend.enqueue([old])
        backend.enqueue([old, new], audit=[each("run-schedule"), an_entry("edit", job_id=old.id)])
        backend.enqueue([old, new], retried=True, audit=[each("run-schedule"), an_entry("edit", job_id=old.id)])

        assert told(backend) == [("edit", old.id), ("run-schedule", new.id)]

    def test_an_act_on_several_jobs_has_one_entry_of_its_own(self, backend):
        envelopes = some_envelopes(3)
        backend.enqueue(envelopes)
        ids = [envelope.id for envelope in envelopes]
        backend.cancel(ids, "no", audit=[an_entry("bulk", ref="7"), each("cancel", ref="7")])

        assert sorted(told(backend, ref="7")) == sorted([("bulk", ""), *(("cancel", job) for job in ids)])
        assert told(backend, job_id="") == [("bulk", "")]

    @pytest.mark.parametrize("act", ["cancel", "retry", "replay", "purge", "enqueue", "forget_key"])
    def test_an_act_that_changed_nothing_leaves_no_entry(self, backend, act):
        backend.enqueue([envelope := an_envelope()])
        gone, audit = an_id(), [each(), an_entry(), an_entry(job_id=envelope.id)]
        match act:
            case "cancel":
                backend.cancel([gone], "no", audit=audit)
            case "retry":
                backend.retry([gone, envelope.id], audit=audit)
            case "replay":
                backend.replay(Query(ids=(gone, envelope.id), limit=2), audit=audit)
            case "purge":
                backend.purge(Query(states=FINISHED), audit=audit)
            case "enqueue":
                backend.enqueue([envelope], audit=audit)
            case _:
                backend.forget_key("never done", audit=audit)

        assert trail(backend) == []

    def test_a_queue_that_is_paused_or_resumed_has_an_entry_each_time(self, backend):
        pause, resume = an_entry("pause", at=1, ref="mail"), an_entry("resume", at=2, ref="mail")
        for _ in range(2):
            backend.pause("mail", audit=[pause])
        for _ in range(2):
            backend.pause("mail", paused=False, audit=[resume])

        assert told(backend, ref="mail") == [("resume", ""), ("pause", "")]

    def test_a_purge_leaves_an_entry_about_itself_alone(self, backend, clock):
        dead = Stage(backend, clock).bring(State.DISCARDED)
        purged = backend.purge(Query(states=_DISCARDED), audit=[an_entry("purge"), each("purge")])

        assert (purged, dead.stored()) == (1, None)
        assert told(backend) == [("purge", "")]

    @needs("holds")
    def test_a_key_that_is_forgotten_has_an_entry(self, backend):
        lease = a_lease(backend, job="send", **ONCE)
        key, audit = an_envelope(job="send", **ONCE).idempotency_key, [an_entry("forget-key", ref="order:42")]
        backend.forget_key(key, audit=audit)
        assert trail(backend) == []

        backend.ack(lease)
        backend.forget_key(key, audit=audit)
        assert told(backend) == [("forget-key", "")]


@needs("audit", "inspection")
@pytest.mark.promise("S136")
class AuditSteeringContract:
    @needs("notes")
    def test_a_signal_that_is_stored_has_an_entry(self, backend):
        backend.enqueue([envelope := an_envelope()])
        for _ in range(2):
            backend.signal(envelope.id, "paid", b"1", audit=[each("signal", ref="paid")])
        backend.signal(an_id(), "paid", b"1", audit=[each("signal", ref="paid")])

        assert told(backend) == [("signal", envelope.id)]

    @needs("lanes")
    def test_a_limit_that_is_set_has_an_entry(self, backend):
        audit = [an_entry("limit-set", ref="queue:mail")]
        assert not backend.set_limit("job", "render", Bounds(running=3), audit=audit)
        assert backend.set_limit("queue", "mail", Bounds(running=3), new=True, audit=audit)

        assert told(backend) == [("limit-set", "")]

    @needs("lanes")
    def test_a_job_that_is_shut_or_opened_has_an_entry_each_time(self, backend):
        for _ in range(2):
            backend.shut("render/", audit=[an_entry("limit-shut", at=1)])
        for _ in range(2):
            backend.shut("render/", opened=True, audit=[an_entry("limit-open", at=2)])

        assert told(backend) == [("limit-open", ""), ("limit-shut", "")]

    @needs("schedules")
    def test_a_schedule_that_is_changed_has_an_entry(self, backend):
        row = ScheduleRow(
            name="nightly", sealed=b"{}", fingerprint="f", origin="runtime", declared_at=1, booked_until=1
        )
        made = ScheduleChange(name="nightly", version=0, row=row)
        audit = [an_entry("create-schedule", ref="nightly")]

        assert [backend.change_schedule(made, audit=audit) for _ in range(2)] == [True, False]
        assert told(backend, ref="nightly") == [("create-schedule", "")]

    @needs("flows")
    def test_a_flow_that_is_cancelled_or_retried_has_an_entry_each_time(self, backend):
        plan = FlowPlan(name="import", nodes=(NodePlan(name="load"),))
        flow = an_id()
        assert not backend.cancel_flow(flow, "no", audit=[an_entry("cancel-flow", ref=flow)])
        backend.enqueue([msgspec.structs.replace(an_envelope(flow=flow, node="load"), plan=plan)])

        assert backend.cancel_flow(flow, "no", audit=[an_entry("cancel-flow", at=1, ref=flow)])
        assert not backend.cancel_flow(flow, "no", audit=[an_entry("cancel-flow", at=2, ref=flow)])
        assert backend.retry_flow(flow, audit=[an_entry("retry-flow", at=3, ref=flow)]) == 1
        assert told(backend, ref=flow) == [("retry-flow", ""), ("cancel-flow", "")]


@needs("audit", "inspection")
@pytest.mark.promise("S137")
class AuditLifeContract:
    def test_entries_stay_with_their_job_through_every_state(self, backend, clock):
        stage = Stage(backend, clock).bring(State.SCHEDULED)
        backend.retry([stage.id], audit=[each("retry", at=1)])
        backend.cancel([stage.id], "no", audit=[each("cancel", at=2)])
        backend.replay(Query(ids=(stage.id,), limit=1), audit=[each("replay", at=3)])
        (lease,) = backend.claim(a_claim(queues=("stage",)))
        backend.ack(lease)

        assert [act for act, _ in told(backend, job_id=stage.id)] == ["replay", "cancel", "retry"]

    def test_entries_are_purged_with_their_job(self, backend):
        kept, purged = some_envelopes(2)
        backend.enqueue([kept, purged])
        backend.cancel([kept.id, purged.id], "no", audit=[each(ref="7")])
        backend.purge(Query(ids=(purged.id,), states=FINISHED))

        for query in ({}, {"ref": "7"}, {"who": "ann@host"}):
            assert told(backend, **query) == [("cancel", kept.id)]
        assert trail(backend, job_id=purged.id) == []

    def test_entries_are_pruned_with_their_job(self, backend, clock):
        backend.enqueue([envelope := an_envelope()])
        backend.cancel([envelope.id], "no", audit=[each()])
        clock.advance(60)
        cutoffs = {State.CANCELLED: clock.micros()}
        backend.prune(cutoffs, dry_run=True)
        assert told(backend) == [("cancel", envelope.id)]

        backend.prune(cutoffs)
        assert trail(backend) == []

    @needs("schedules")
    def test_entries_of_a_job_that_is_taken_back_go_with_it(self, backend):
        backend.enqueue([envelope := an_envelope(delay=60)], audit=[each("run-schedule")])
        backend.take_back([envelope.id])

        assert trail(backend) == []

    def test_entries_of_no_job_are_kept_for_ninety_days(self, backend, clock):
        backend.pause("mail", audit=[an_entry("pause", at=clock.micros())])
        backend.enqueue([envelope := an_envelope(delay=60)])
        backend.retry([envelope.id], audit=[each("retry", at=clock.micros())])
        clock.advance(KEPT_FOR.total_seconds() - 1)
        backend.prune({})
        assert told(backend, job_id="") == [("pause", "")]

        clock.advance(1)
        backend.prune({}, dry_run=True)
        assert told(backend, job_id="") == [("pause", "")]
        backend.prune({})
        assert told(backend) == [("retry", envelope.id)]

    def test_a_prune_drops_no_more_entries_than_its_batch(self, backend, clock):
        for at in range(5):
            backend.pause("mail", paused=at % 2 == 0, audit=[an_entry("pause", at=at)])
        clock.advance(KEPT_FOR)

        backend.prune({}, limit=2)
        assert [entry.at for entry in trail(backend)] == [4, 3, 2]

    @needs("transferable")
    def test_entries_go_with_their_job_to_another_store(self, backend, clock):
        dead = Stage(backend, clock, queue="default").bring(State.DISCARDED)
        backend.enqueue([waiting := an_envelope(delay=60)])
        backend.replay(Query(ids=(dead.id,), limit=1), audit=[each("replay", dead.id, at=1)])
        backend.retry([waiting.id], audit=[each("retry", waiting.id, at=2)])
        assert backend.reserve("default", _MINE)
        jobs = backend.list(Query(queue="default"))
        attached = backend.attached(jobs)
        assert sorted(backend.remove(_MINE, jobs, attached)) == sorted([dead.id, waiting.id])
        assert trail(backend) == []

        backend.restore(_MINE, jobs, attached)
        backend.restore(_MINE, jobs, attached)
        entries = trail(backend)
        assert [(entry.act, entry.job_id, entry.signature) for entry in entries] == [
            ("retry", waiting.id, f"signed {waiting.id}"),
            ("replay", dead.id, f"signed {dead.id}"),
        ]

    @needs("emptying")
    def test_a_store_that_is_emptied_has_none(self, backend):
        backend.pause("mail", audit=[an_entry("pause")])
        backend.empty()

        assert trail(backend) == []


@needs("audit", "inspection")
class AuditPagesContract:
    def test_pages_go_from_the_newest_to_the_oldest(self, backend):
        instants = [5, 3, 9, 3, 7]
        for turn, at in enumerate(instants):
            backend.pause("mail", paused=turn % 2 == 0, audit=[an_entry("pause", at=at, detail=str(turn))])
        found: list[AuditEntry] = []
        for _ in instants:
            found += trail(backend, before=found[-1].place if found else None, limit=2)

        # Entries of one instant are in the order in which they came.
        assert [(entry.at, entry.detail) for entry in found] == [(9, "2"), (7, "4"), (5, "0"), (3, "3"), (3, "1")]

    def test_entries_are_found_by_person_act_and_what_they_are_about(self, backend):
        backend.pause("mail", audit=[an_entry("pause", at=1, who="ann", ref="mail")])
        backend.pause("mail", paused=False, audit=[an_entry("resume", at=2, who="bob", ref="mail")])
        backend.pause("news", audit=[an_entry("pause", at=3, who="ann", ref="news")])

        assert [entry.at for entry in trail(backend, who="ann")] == [3, 1]
        assert [entry.at for entry in trail(backend, ref="mail")] == [2, 1]
        assert [entry.at for entry in trail(backend, act="pause")] == [3, 1]
        assert [entry.at for entry in trail(backend, ref="mail", who="ann")] == [1]
        assert [entry.at for entry in trail(backend, job_id="", act="pause", ref="news", who="ann")] == [3]
        assert trail(backend, who="carl") == []

    def test_a_page_is_one_snapshot_with_the_rest_of_a_look(self, backend, clock):
        backend.enqueue([envelope := an_envelope()])
        backend.cancel([envelope.id], "no", audit=[each(at=clock.micros())])
        seen = backend.look(Look(counts=True, place_of=envelope.id, audit=AuditQuery(job_id=envelope.id)))

        assert seen.place.job.state is State.CANCELLED
        assert [entry.act for entry in seen.audit] == ["cancel"]
        assert seen.now - seen.audit[0].at < 60 * SECOND

    def test_long_texts_are_kept_whole(self, backend):
        entry = an_entry("pause", who="w" * 200, detail="ü" * 500, ref="ä" * 200, signature="s" * 200)
        backend.pause("mail", audit=[entry])

        (found,) = trail(backend, who="w" * 200)
        assert (found.detail, found.ref, found.signature) == (entry.detail, entry.ref, entry.signature)
