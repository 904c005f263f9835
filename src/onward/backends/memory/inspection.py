"""Looking at the memory backend's jobs, and the requests of people."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

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
from onward.backends.memory import flows, settling
from onward.backends.memory.store import MemoryJob, MemoryStore
from onward.base.clock import SECOND
from onward.errors import QueueReserved
from onward.job.states import FINISHED, State

__all__ = ["MemoryInspection"]

_TOMBSTONE = round(TOMBSTONE.total_seconds() * SECOND)


class MemoryInspection:
    """The `Inspection` half of the backend."""

    _store: MemoryStore

    @abstractmethod
    def _writing(self) -> AbstractContextManager[int]: ...

    def get(self, job_id: str) -> StoredJob | None:
        found = self.get_many([job_id])
        return found[0] if found else None

    def get_many(self, ids: Sequence[str]) -> Sequence[StoredJob]:
        with self._writing():
            found = [self._store.find(job_id) for job_id in dict.fromkeys(ids)]
            return [job.stored(self._store.runs_of(job.id)) for job in found if job is not None]

    def list(self, query: Query) -> Sequence[StoredJob]:
        with self._writing():
            return [job.stored(self._store.runs_of(job.id)) for job in self._matching(query)]

    def counts(self, queue: str | None = None) -> dict[State, int]:
        with self._writing():
            jobs = (*self._store.live.values(), *self._store.finished.values())
            seen = Counter(job.state for job in jobs if not job.tombstone and queue in (None, job.queue))
            return {state: seen[state] for state in State}

    def queues(self) -> Sequence[QueueState]:
        with self._writing():
            live = Counter(job.queue for job in self._store.live.values())
            names = sorted(live.keys() | self._store.paused.keys())
            paused, reserved = self._store.paused, self._store.reserved
            return [
                QueueState(name=name, paused=name in paused, live=live[name], reserved_for=reserved.get(name))
                for name in names
            ]

    def queues_with_work(self, prefix: str = "", *, after: str = "", limit: int = 500) -> QueuePage:
        with self._writing() as now:
            ready, later = self._store.ready, self._store.later
            laned, booked = self._store.lanes.lines, self._store.booked
            waiting = {name for line in (ready, later, laned, booked) for name, jobs in line.items() if jobs}
            walked = sorted(name for name in waiting if name.startswith(prefix) and name > after)[:limit]
            due = [
                name
                for name in walked
                if ready.get(name) or name in laned or (self._store.waits_until(name) or now + 1) <= now
            ]
            return QueuePage(
                names=[name for name in due if name not in self._store.paused],
                next=walked[-1] if len(walked) == limit else None,
            )

    def sessions(self) -> Sequence[SessionState]:
        with self._writing():
            return [
                SessionState(
                    owner=owner,
                    lease_for=each.session.lease_for,
                    host=each.session.host,
                    pid=each.session.pid,
                    version=each.session.version,
                    expires_at=each.expires_at,
                    leases=len(self._store.leased.get(owner, ())),
                    description=each.session.description,
                )
                for owner, each in sorted(self._store.sessions.items())
            ]

    def cancel(self, ids: Sequence[str], reason: str, *, audit: Audit = ()) -> Sequence[State | None]:
        with self._writing() as now:
            live = self._store.live
            changed = [job_id for job_id in dict.fromkeys(ids) if job_id in live and not live[job_id].cancel_reason]
            states = [self._cancel(live.get(job_id), reason, now) for job_id in ids]
            self._store.audit.add(audit, changed or None)
            return states

    def retry(self, ids: Sequence[str], *, audit: Audit = ()) -> Sequence[bool]:
        with self._writing() as now:
            made_due = [self._retry(self._store.live.get(job_id), now) for job_id in ids]
            self._store.audit.add(audit, [job_id for job_id, due in zip(ids, made_due, strict=True) if due] or None)
            return made_due

    def replay(self, query: Query, *, fresh: bool = False, audit: Audit = ()) -> Replayed:
        with self._writing() as now:
            replayed = Replayed(
                ids=[], skipped={job_id: "tombstone" for job_id in query.ids or () if self._is_tomb(job_id)}
            )
            for job in list(self._matching(query, within=frozenset({State.DISCARDED, State.CANCELLED}))):
                obstacle = self._obstacle(job, now)
                if obstacle is None:
                    self._store.revive(job, now)
                    replayed.ids.append(job.id)
                    if fresh:
                        self._store.notes.pop(job.id, None)
                else:
                    replayed.skipped[job.id] = obstacle
            ended_again = flows.replayed(self._store, replayed.ids, now)
            kept = [job_id for job_id in replayed.ids if job_id not in ended_again]
            self._store.audit.add(audit, kept or None)
            return Replayed(ids=kept, skipped=replayed.skipped | ended_again)

    def purge(self, query: Query, *, audit: Audit = ()) -> int:
        with self._writing():
            removable = list(self._matching(query, within=FINISHED))
            for job in removable:
                self._forget(job)
            self._store.audit.add(audit, () if removable else None)
            return len(removable)

    def prune(
        self,
        cutoffs: Mapping[State, int],
        *,
        queue: str | None = None,
        dry_run: bool = False,
        after: str = "",
        limit: int = 500,
    ) -> Pruned:
        with self._writing() as now:
            page = sorted(job_id for job_id in self._store.finished if job_id > after)[:limit]
            removable = [
                job
                for job in [self._store.finished[job_id] for job_id in page]
                if self._store.flows.ended_at(job.envelope, job.finished_at or 0)
                < (now - _TOMBSTONE if job.tombstone else cutoffs.get(job.state, -1))
                and queue in (None, job.queue)
            ]
            if not dry_run:
                self._drop_spent_holds(now)
                self._store.audit.drop_old(now, limit)
                for job in removable:
                    self._forget(job)
            removed = Counter((job.queue, job.state) for job in removable)
            return Pruned(removed=dict(removed), next=page[-1] if len(page) == limit else None)

    def forget_key(self, key: str, *, audit: Audit = ()) -> tuple[Hold, str | None]:
        with self._writing() as now:
            found = settling.forget_key(self._store, ("once", key), now)
            self._store.audit.add(audit, () if found[0] is Hold.DONE else None)
            return found

    def pause(self, queue: str, *, paused: bool = True, audit: Audit = ()) -> bool:
        with self._writing() as now:
            if not paused and queue in self._store.reserved:
                raise QueueReserved(queue, self._store.reserved[queue])
            if paused is (queue in self._store.paused):
                return False
            if paused:
                self._store.paused[queue] = now
            else:
                del self._store.paused[queue]
            self._store.audit.add(audit, ())
            return True

    def progress(self, lease: Lease, progress: bytes) -> bool:
        with self._writing():
            job = self._store.live.get(lease.envelope.id)
            if job is None or (job.state, job.delivery, job.owner) != (State.EXECUTING, lease.token, lease.owner):
                return False
            job.progress = progress
            return True

    def _matching(self, query: Query, *, within: frozenset[State] = frozenset(State)) -> Iterator[MemoryJob]:
        states = within if query.states is None else within & query.states
        if query.fingerprint is not None:
            states &= {State.DISCARDED}
        live, finished = self._store.live, self._store.finished
        found = 0
        for job_id in sorted(live.keys() | finished.keys(), reverse=query.newest_first):
            if found == query.limit:
                return
            # A job that was replayed is live and finished: it is shown as live, unless that state is not asked for.
            job = live.get(job_id)
            if job is None or (job.state not in states and job_id in finished):
                job = finished[job_id]
            if (
                job.state in states
                and not job.tombstone
                and (query.ids is None or job_id in query.ids)
                and query.queue in (None, job.queue)
                and query.job in (None, job.envelope.job)
                and query.flow in (None, job.envelope.flow)
                and query.node in (None, job.envelope.node)
                and query.fingerprint in (None, self._store.deaths.fingerprint_of(job_id))
                and (query.until is None or job_id <= query.until)
                and (query.after is None or (job_id < query.after if query.newest_first else job_id > query.after))
            ):
                found += 1
                yield job

    def _cancel(self, job: MemoryJob | None, reason: str, now: int) -> State | None:
        if job is None:
            return None
        if job.state is State.EXECUTING:
            job.cancel_reason = job.cancel_reason or reason
            return State.EXECUTING
        self._store.finish(job, State.CANCELLED, now, reason)
        return State.CANCELLED

    def _retry(self, job: MemoryJob | None, now: int) -> bool:
        if job is None or job.state not in (State.SCHEDULED, State.RETRYABLE) or job.awaits_node:
            return False
        self._store.place(job, State.AVAILABLE, available_at=now)
        return True

    def _obstacle(self, job: MemoryJob, now: int) -> str | None:
        if job.expired(now):
            return "expired"
        if job.id in self._store.live:  # enqueued again under its old id
            return f"key held by {job.id}"
        holder = self._store.unique.get(job.envelope.unique_key or "")
        return None if holder is None or job.envelope.unique_key is None else f"key held by {holder}"

    def _is_tomb(self, job_id: str) -> bool:
        job = self._store.finished.get(job_id)
        return job is not None and job.tombstone

    def _forget(self, job: MemoryJob) -> None:
        self._store.forget(job.id)
        self._store.runs.pop(job.id, None)
        self._store.flows.forgotten(job.envelope, job.id)
        if job.id not in self._store.live:  # else they belong to the job that was enqueued again under its id
            self._store.notes.pop(job.id, None)
            self._store.audit.forget(job.id)

    def _drop_spent_holds(self, now: int) -> None:
        spent = [
            key for key, pointer in self._store.holds.items() if pointer.until is not None and pointer.until <= now
        ]
        for key in spent:
            del self._store.holds[key]
