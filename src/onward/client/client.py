"""Storing sealed jobs: the client commits them with those of other threads, counts them, and emits events."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter

from onward.backend import Backend, Enqueued
from onward.base.interruption import uninterrupted
from onward.base.lazy import asyncio
from onward.base.logs import get_logger
from onward.client.group_commit import Enqueue, GroupCommit
from onward.client.letters import LetterWriter
from onward.contract.transactions import in_the_way, waits_for_itself
from onward.job.envelope import Envelope
from onward.telemetry import JobDeduplicated, JobEnqueued, Metrics, Telemetry

__all__ = ["Client"]

logger = get_logger("onward")

_CREATED, _PAIR = attrgetter("created"), attrgetter("queue", "job")
_COUNTED = {True: "jobs_enqueued", False: "jobs_deduplicated"}


class Client:
    """Enqueues what its `letters` have sealed.  Knows the store; knows nothing of workers."""

    after_enqueue: Callable[[], None] | None = None  # of a store whose jobs the enqueueing thread runs

    def __init__(
        self,
        backend: Backend,
        letters: LetterWriter,
        telemetry: Telemetry,
        metrics: Metrics,
        *,
        enqueue_timeout: float,
    ) -> None:
        self.letters = letters
        self._backend = backend
        self._telemetry = telemetry
        self._metrics = metrics
        self._commit = GroupCommit(backend.enqueue, timeout=enqueue_timeout, repeats=backend.capabilities.knows_ids)
        self._timeout = enqueue_timeout
        self._warned_about_loop = False

    def enqueue(self, envelopes: Sequence[Envelope]) -> list[Enqueued]:
        """Store sealed jobs, durably.  The answers say which are new, and which live job stands for each other one."""
        self._warn_on_event_loop()
        return self._submit(envelopes)

    async def aenqueue(self, envelopes: Sequence[Envelope]) -> list[Enqueued]:
        """Store sealed jobs without blocking the event loop."""
        return await asyncio.to_thread(self._submit, envelopes)

    def enqueue_by(self, enqueue: Enqueue, envelopes: Sequence[Envelope]) -> list[Enqueued]:
        """Store sealed jobs by another verb of the store, which may be repeated as `enqueue` may."""
        self._warn_on_event_loop()
        return self._submit(envelopes, GroupCommit(enqueue, timeout=self._timeout))

    def _submit(self, envelopes: Sequence[Envelope], commit: GroupCommit | None = None) -> list[Enqueued]:
        if in_the_way.get() is self._backend:
            raise waits_for_itself()
        with uninterrupted():  # a handler that enqueues may be interrupted, but not here
            try:
                answers = (commit or self._commit).submit(envelopes) if envelopes or commit else []
            except BaseException as error:
                self.letters.stamps.unsent(error)
                raise
            self.count(envelopes, answers)
            if self._telemetry.wants(JobEnqueued) or self._telemetry.wants(JobDeduplicated):
                for envelope, answer in zip(envelopes, answers, strict=True):
                    self._tell(envelope, answer)
        if self.after_enqueue is not None:
            self.after_enqueue()
        return answers

    def booked(self, envelopes: Sequence[Envelope]) -> None:
        """Count and tell jobs that were stored otherwise: with a change of their schedule, or by a running job."""
        answers = [Enqueued(envelope.id) for envelope in envelopes]
        if answers:
            self.count(envelopes, answers)
        for envelope, answer in zip(envelopes, answers, strict=True):
            self._tell(envelope, answer)

    def count(self, envelopes: Sequence[Envelope], answers: Sequence[Enqueued]) -> None:
        """Count jobs that were stored, or passed to a transaction of the caller's, and those that another job stands for."""
        if self.letters.stamps.used:
            self.letters.stamps.sent(envelopes)
        if len(envelopes) == 1:  # nearly always
            self._metrics.add_one(_COUNTED[answers[0].created], _PAIR(envelopes[0]))
            return
        answered = zip(map(_CREATED, answers), map(_PAIR, envelopes), strict=True)
        counts = {(_COUNTED[created], pair): count for (created, pair), count in Counter(answered).items()}
        self._metrics.add_all(counts)

    def _tell(self, envelope: Envelope, answer: Enqueued) -> None:
        kind = JobEnqueued if answer.created else JobDeduplicated
        if not self._telemetry.wants(kind):
            return
        if answer.created:
            self._telemetry.emit(JobEnqueued(id=envelope.id, job=envelope.job, queue=envelope.queue))
        else:
            existing = answer.existing_id
            self._telemetry.emit(
                JobDeduplicated(id=envelope.id, job=envelope.job, queue=envelope.queue, existing_id=existing)
            )

    def _warn_on_event_loop(self) -> None:
        # The public `get_running_loop` raises where there is no loop, and that costs ten times as much.
        events = sys.modules.get("asyncio.events")  # which a program without an event loop never imports
        if self._warned_about_loop or events is None or events._get_running_loop() is None:  # noqa: SLF001
            return
        self._warned_about_loop = True
        logger.warning(
            "enqueue() blocks the running event loop until the job is durable: use `await job.aenqueue(...)`"
        )
