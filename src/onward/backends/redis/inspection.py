"""Looking at the jobs of a server, and the requests of people."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onward.backend import (
    TOMBSTONE,
    Audit,
    Hold,
    Lease,
    Pruned,
    Query,
    QueuePage,
    QueueState,
    Replayed,
    SessionState,
    StoredJob,
)
from onward.backends.damage import set_aside_and_repeat
from onward.backends.redis import packing, showing
from onward.backends.redis.audit import AUDIT_KEPT_FOR, given, of_jobs
from onward.backends.redis.deaths import died_as
from onward.backends.redis.layout import STATES
from onward.backends.redis.overview import NUMBERS, RedisOverview, counted, number
from onward.backends.redis.showing import shown_name
from onward.backends.redis.turning import HOLDS
from onward.base.clock import SECOND
from onward.errors import BackendUnavailable, QueueReserved
from onward.job.states import FINISHED, State

__all__ = ["RedisInspection"]

_TOMBSTONE = round(TOMBSTONE.total_seconds() * SECOND)
_STRETCH = 1_000  # jobs that one script looks at: the server answers no other client meanwhile
_BATCH = 500
_HOLDS = 1_000  # confirmed keys whose time is over that one prune removes
_REPLAYABLE = frozenset({State.DISCARDED, State.CANCELLED})


class _Hidden(Exception):
    """There are records that no index names."""


class RedisInspection(RedisOverview):
    """The `Inspection` half of the backend."""

    _gates_cursor = "0"  # where the next prune goes on to look for gates to drop

    @abstractmethod
    def set_aside_if_it_can(self) -> int: ...

    @abstractmethod
    def _run(self, name: str, *arguments: Any, beside: Sequence[bytes] = ()) -> Any: ...

    @abstractmethod
    def _now(self) -> int | None: ...

    @abstractmethod
    def _finish_steps(self, flow_id: str) -> int: ...

    @abstractmethod
    def _nodes_of(self, flow_id: str) -> Sequence[str]: ...

    def get(self, job_id: str) -> StoredJob | None:
        found = self.get_many([job_id])
        return found[0] if found else None

    @set_aside_and_repeat
    def get_many(self, ids: Sequence[str]) -> Sequence[StoredJob]:
        return [showing.shown_job(each) for each in self._run("pick", list(dict.fromkeys(ids)))]

    @set_aside_and_repeat
    def list(self, query: Query) -> Sequence[StoredJob]:
        try:
            return [*self._matching(query, frozenset(State), whole=True)]
        except _Hidden:
            self.set_aside_if_it_can()
        return [*self._matching(query, frozenset(State))]

    @set_aside_and_repeat
    def counts(self, queue: str | None = None) -> dict[State, int]:
        found = counted(self._run("counts", queue))
        return {state: found.get(number, 0) for state, number in NUMBERS.items()}

    @set_aside_and_repeat
    def queues(self) -> Sequence[QueueState]:
        queues = self._run("queues")
        return [
            QueueState(
                name=shown_name(name),
                paused=bool(paused),
                live=sum(map(number, counts)),
                reserved_for=shown_name(reserved) if reserved else None,
            )
            for name, paused, counts, reserved in queues
        ]

    @set_aside_and_repeat
    def queues_with_work(self, prefix: str = "", *, after: str = "", limit: int = 500) -> QueuePage:
        found, following = self._run("queues_with_work", self._now(), prefix, after, limit)
        return QueuePage(
            names=[shown_name(name) for name in found],
            next=None if following is None else following.decode(),
        )

    @set_aside_and_repeat
    def sessions(self) -> Sequence[SessionState]:
        found = [showing.session_state(*each) for each in self._run("sessions")]
        return sorted(found, key=lambda session: session.owner)

    @set_aside_and_repeat
    def cancel(self, ids: Sequence[str], reason: str, *, audit: Audit = ()) -> Sequence[State | None]:
        return [STATES.get(number) for number in self._run("cancel", self._now(), ids, reason, *given(audit))]

    @set_aside_and_repeat
    def retry(self, ids: Sequence[str], *, audit: Audit = ()) -> Sequence[bool]:
        return [bool(made_due) for made_due in self._run("retry", self._now(), ids, *given(audit))]

    @set_aside_and_repeat
    def replay(self, query: Query, *, fresh: bool = False, audit: Audit = ()) -> Replayed:
        replayed = Replayed(ids=[], skipped={job.id: "tombstone" for job in self._tombs_named(query)})
        for ids in _batches([job.id for job in self._matching(query, _REPLAYABLE)]):
            answers, unswept = self._run("replay", self._now(), ids, fresh, *given(audit))
            ended_again = self._ended_again(ids, packing.names(unswept))
            for job_id, answer in packing.obstacles(answers):
                obstacle = answer or ended_again.get(job_id)
                if obstacle:
                    replayed.skipped[job_id] = obstacle
                else:
                    replayed.ids.append(job_id)
            audit = of_jobs(audit) if replayed.ids else audit
        return replayed

    def _ended_again(self, ids: Sequence[str], unswept: Sequence[str]) -> dict[str, str]:
        """Take the steps that are left of flows whose members were replayed; return why some of them have ended again."""
        for flow_id in unswept:
            self._finish_steps(flow_id)
        ended = (job for job in self.get_many(ids) if job.is_finished) if unswept else ()
        return {job.id: job.reason or "ended again" for job in ended}

    @set_aside_and_repeat
    def purge(self, query: Query, *, audit: Audit = ()) -> int:
        removed = 0
        for batch in _batches([job.id for job in self._matching(query, FINISHED)]):
            removed += self._run("purge", batch, *given(of_jobs(audit) if removed else audit))
        return removed

    @set_aside_and_repeat
    def prune(
        self,
        cutoffs: Mapping[State, int],
        *,
        queue: str | None = None,
        dry_run: bool = False,
        after: str = "",
        limit: int = 500,
    ) -> Pruned:
        by_state = [cutoffs.get(state) for state in _FINISHED]
        given = (by_state, after or None, limit, _TOMBSTONE, _HOLDS, queue, dry_run, self._gates_cursor, AUDIT_KEPT_FOR)
        following, found, cursor = self._run("prune", self._now(), *given)
        self._gates_cursor = cursor.decode()
        removed = Counter((name.decode(), STATES[number]) for name, number in found)
        return Pruned(removed=dict(removed), next=None if following is None else following.decode())

    @set_aside_and_repeat
    def forget_key(self, key: str, *, audit: Audit = ()) -> tuple[Hold, str | None]:
        hold, job_id = self._run("forget_key", self._now(), key, *given(audit))
        return HOLDS[hold], shown_name(job_id) or None

    @set_aside_and_repeat
    def pause(self, queue: str, *, paused: bool = True, audit: Audit = ()) -> bool:
        changed = self._run("pause", self._now(), queue, paused, *given(audit))
        if isinstance(changed, bytes):
            raise QueueReserved(queue, shown_name(changed))
        return bool(changed)

    @set_aside_and_repeat
    def progress(self, lease: Lease, progress: bytes) -> bool:
        return bool(self._run("progress", lease.envelope.id, lease.token, lease.owner, beside=[progress]))

    def _matching(self, query: Query, within: frozenset[State], *, whole: bool = False) -> Iterator[StoredJob]:
        """Yield jobs in the order of ids, each read at one moment.  ``whole``: raise for records that no index names."""
        states = within if query.states is None else within & query.states
        if query.fingerprint is not None:
            states &= {State.DISCARDED}
        found = self._named(query, states) if query.ids is not None else self._walk(query, states, whole=whole)
        for left, job in zip(range(query.limit, 0, -1), found, strict=False):
            assert left > 0
            if query.until is not None and job.id > query.until:
                return  # oldest first: the others are beyond it, too
            yield job

    def _walk(self, query: Query, states: frozenset[State], *, whole: bool) -> Iterator[StoredJob]:
        after, left = query.after, query.limit
        if query.until is not None and query.newest_first:
            last = f"{query.until}!"  # no id goes on with a lower character
            after = last if after is None else min(after, last)
        numbers = sorted(NUMBERS[state] for state in states)
        members = () if query.flow is None else (query.flow, self._nodes_asked_for(query.flow, query.node))
        ends = None if query.within is None else time.monotonic() + query.within
        while numbers and left > 0:
            bounds = after, query.newest_first, min(left, _STRETCH), _STRETCH
            if query.fingerprint is None:
                found, last, hides = self._run("walk", numbers, query.queue, query.job, *bounds, *members)
            else:
                group = query.job, query.fingerprint, query.queue, query.flow, query.node
                found, last, hides = self._run("walk_group", *group, *bounds)
            if hides and whole:
                raise _Hidden
            for shown in found:
                yield showing.shown_job(shown)
            left -= len(found)
            if last is None:
                return
            if ends is not None and time.monotonic() > ends:
                raise BackendUnavailable(f"a page of jobs took longer than {query.within:g} s and was ended")
            after = last.decode()

    def _nodes_asked_for(self, flow_id: str, node: str | None) -> Sequence[str]:
        return [node] if node is not None else self._nodes_of(flow_id)

    def _named(self, query: Query, states: frozenset[State]) -> Iterator[StoredJob]:
        ids = sorted(set(query.ids or ()), reverse=query.newest_first)
        if query.after is not None:
            ids = [each for each in ids if (each < query.after if query.newest_first else each > query.after)]
        for batch in _batches(ids):
            for shown in self._run("pick", batch, states <= FINISHED):
                job = showing.shown_job(shown)
                if (
                    job.state in states
                    and not job.tombstone
                    and query.queue in (None, job.queue)
                    and query.job in (None, job.job)
                    and query.flow in (None, job.flow)
                    and query.node in (None, job.node)
                    and (query.fingerprint is None or died_as(shown[1]) == query.fingerprint)
                    and (query.until is None or job.id <= query.until)
                ):
                    yield job

    def _tombs_named(self, query: Query) -> Iterator[StoredJob]:
        for batch in _batches(query.ids or ()):
            for job in map(showing.shown_job, self._run("pick", batch, _ONLY_FINISHED)):
                if job.tombstone:
                    yield job


_FINISHED = (State.COMPLETED, State.DISCARDED, State.CANCELLED)
_ONLY_FINISHED = True


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for at in range(0, len(ids), _BATCH):
        yield ids[at : at + _BATCH]
