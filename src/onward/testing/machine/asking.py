"""The verbs of `Inspection`, on the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from onward.backend import TOMBSTONE, Death, DeathGroup, Query, QueueCounts, QueueState, Replayed, StoredJob
from onward.base.clock import SECOND
from onward.job.lease import Hold, Lease
from onward.job.states import FINISHED, LIVE, State
from onward.testing.machine.model import Model
from onward.testing.machine.model_job import ModelJob

__all__ = ["AskedModel"]


class AskedModel(Model):
    """The model with `Inspection`."""

    def get(self, job_id: str) -> StoredJob | None:
        job = self.live.get(job_id) or self.finished.get(job_id)
        return None if job is None else self._stored(job)

    def list(self, query: Query) -> Sequence[StoredJob]:
        return [self._stored(job) for job in self._matching(query)]

    def _matching(self, query: Query, within: frozenset[State] = frozenset(State)) -> Sequence[ModelJob]:
        jobs = [
            job
            for job in (*self.live.values(), *self.finished.values())
            if not job.tombstone
            and job.state in within
            and (query.ids is None or job.id in query.ids)
            and (query.states is None or job.state in query.states)
            and query.queue in {None, job.envelope.queue}
            and query.job in {None, job.envelope.job}
            and query.flow in {None, job.envelope.flow}
            and query.node in {None, job.envelope.node}
            and (query.fingerprint is None or (job.state is State.DISCARDED and job.died == query.fingerprint))
            and (query.until is None or job.id <= query.until)
            and (query.after is None or (job.id < query.after if query.newest_first else job.id > query.after))
        ]
        return sorted(jobs, key=lambda job: job.id, reverse=query.newest_first)[: query.limit]

    def counts(self, queue: str | None = None) -> dict[State, int]:
        jobs = [job for job in (*self.live.values(), *self.finished.values()) if not job.tombstone]
        seen = Counter(job.state for job in jobs if queue in {None, job.envelope.queue})
        return {state: seen[state] for state in State}

    def queues(self) -> Sequence[QueueState]:
        live = Counter(job.envelope.queue for job in self.live.values())
        names = sorted({*live, *self.paused})
        return [QueueState(name=name, paused=name in self.paused, live=live[name]) for name in names]

    def death_groups(self, at_most: int) -> Sequence[DeathGroup]:
        """Return the groups of `look`."""
        groups: dict[tuple[str, str], list[ModelJob]] = {}
        for _, job in sorted(self.finished.items()):
            if job.state is State.DISCARDED and job.died is not None:
                groups.setdefault((job.envelope.job, job.died), []).append(job)
        return [
            DeathGroup(
                job=name,
                fingerprint=fingerprint,
                count=min(len(jobs), at_most),
                first=Death(jobs[0].id, jobs[0].finished_at or 0),
                last=Death(jobs[-1].id, jobs[-1].finished_at or 0),
            )
            for (name, fingerprint), jobs in sorted(groups.items())
        ]

    @property
    def every_id(self) -> Sequence[str]:
        return [*self.live, *self.finished]

    def seen_queues(self) -> Sequence[QueueCounts]:
        """Return the queues of `look`."""
        return [
            QueueCounts(
                name=each.name,
                paused=each.paused,
                counts={state: self.counts(each.name)[state] for state in LIVE},
                oldest_due=self._oldest_due(each.name),
                paused_at=self.paused.get(each.name),
            )
            for each in self.queues()
        ]

    def _oldest_due(self, queue: str) -> int | None:
        waiting = [job for job in self.live.values() if job.waiting and job.envelope.queue == queue]
        due = [job for job in waiting if job.state is State.AVAILABLE or job.available_at <= self.now]
        return min((job.available_at for job in due), default=None)

    def seen_sessions(self) -> Sequence[tuple[str, int, int]]:
        """Return owner, expiry and number of leases of each session."""
        return [(owner, row.expires_at, len(self.held_by(owner))) for owner, row in sorted(self.sessions.items())]

    def cancel(self, ids: Sequence[str], reason: str) -> Sequence[State | None]:
        answers = [self._cancel(self.live.get(job_id), reason) for job_id in ids]
        self.look()
        return answers

    def _cancel(self, job: ModelJob | None, reason: str) -> State | None:
        if job is None:
            return None
        if job.waiting:
            self.finish(job, State.CANCELLED, reason)
        else:
            job.asked = job.asked or reason
        return job.state

    def retry(self, ids: Sequence[str]) -> Sequence[bool]:
        return [self._retry(self.live.get(job_id)) for job_id in ids]

    def _retry(self, job: ModelJob | None) -> bool:
        if job is None or job.state not in {State.SCHEDULED, State.RETRYABLE} or job.awaits_node:
            return False
        job.state, job.available_at = State.AVAILABLE, self.now
        return True

    def replay(self, query: Query, *, fresh: bool = False) -> Replayed:
        named = [self.finished[job_id] for job_id in query.ids or () if job_id in self.finished]
        replayed = Replayed(ids=[], skipped={job.id: "tombstone" for job in named if job.tombstone})
        for job in self._matching(query, frozenset({State.DISCARDED, State.CANCELLED})):
            holder = self.holder_of(job.envelope.unique_key)
            if job.expired(self.now):
                replayed.skipped[job.id] = "expired"
            elif holder is not None:
                replayed.skipped[job.id] = f"key held by {holder.id}"
            else:
                self.replay_member(job)
                replayed.ids.append(job.id)
                if fresh:
                    self.written.pop(job.id, None)
        ended_again = self.replayed(replayed.ids)
        return Replayed(
            ids=[job_id for job_id in replayed.ids if job_id not in ended_again], skipped=replayed.skipped | ended_again
        )

    def purge(self, query: Query) -> int:
        doomed = self._matching(query, FINISHED)
        for job in doomed:
            self._forget(job)
        return len(doomed)

    def prune_all(self, cutoffs: Mapping[State, int]) -> Counter[State]:
        """Prune to the end."""
        removed: Counter[State] = Counter()
        for job in [*self.finished.values()]:
            cutoff = self.now - TOMBSTONE.seconds * SECOND if job.tombstone else cutoffs.get(job.state, 0)
            if self.retention_begins(job) < cutoff:
                self._forget(job)
                removed[job.state] += 1
        return removed

    def _forget(self, job: ModelJob) -> None:
        del self.finished[job.id]
        self.forget_flow(job)
        self.records = {held: run for held, run in self.records.items() if held[0] != job.id}
        self.written.pop(job.id, None)

    def forget_key(self, key: str) -> tuple[Hold, str | None]:
        pointer = self._valid(("idempotency", key))
        if pointer is None:
            return Hold.FREE, None
        if pointer.until is None:
            return Hold.BUSY, pointer.job_id
        del self.holds["idempotency", key]
        return Hold.DONE, pointer.job_id

    def pause(self, queue: str, *, paused: bool = True) -> bool:
        changes = (queue in self.paused) is not paused
        if changes and paused:
            self.paused[queue] = self.now
        elif changes:
            del self.paused[queue]
        return changes

    def progress(self, lease: Lease, progress: bytes) -> bool:
        if not self.holds_lease(lease, lease.owner):
            return False
        self.live[lease.envelope.id].progress = progress
        return True

    def _stored(self, job: ModelJob) -> StoredJob:
        envelope = job.envelope
        return StoredJob(
            id=job.id,
            queue=envelope.queue,
            job=envelope.job,
            data=b"" if job.tombstone else envelope.data,
            state=job.state,
            priority=envelope.priority,
            attempts=job.attempts,
            delivery=job.delivery,
            crashes=job.crashes,
            interruptions=job.interruptions,
            available_at=job.available_at,
            enqueued_at=envelope.enqueued_at,
            started_at=job.started_at,
            finished_at=job.finished_at,
            owner=job.owner,
            cancel_reason=job.asked,
            result=job.result,
            reason=job.reason,
            progress=job.progress,
            waits=job.waits,
            parked_since=job.parked_since,
            awaits=job.awaits if job.state is State.SCHEDULED else None,
            tombstone=job.tombstone,
            flow=envelope.flow,
            node=envelope.node,
            runs=tuple(run for (job_id, _), run in sorted(self.records.items()) if job_id == job.id),
            **({} if job.tombstone else self._continuation(job)),
        )

    def _continuation(self, job: ModelJob) -> dict[str, Any]:
        """Return what is shown of every job but a tombstone."""
        lives, envelope = job.state in LIVE, job.envelope
        names = ("max_crashes", "expires_at", "unique_key", "idempotency_key", "single_instance", "lane", "cost")
        return {name: getattr(envelope, name) for name in names} | {
            "spent": job.spent if lives else None,
            "key_held": lives and job.unique_key is not None,
            "idempotency_ttl": envelope.idempotency_ttl if envelope.idempotency_key is not None else 0,
        }
