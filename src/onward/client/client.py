"""Putting sealed jobs into the store: committed together with what other threads enqueue right now, counted and told."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from onward.backend import Backend, Enqueued
from onward.base.interruption import uninterrupted
from onward.base.logs import get_logger
from onward.client.group_commit import GroupCommit
from onward.client.letters import LetterWriter
from onward.contract.transactions import refuse_to_wait
from onward.job.envelope import Envelope
from onward.telemetry import JobDeduplicated, JobEnqueued, Metrics, Telemetry

__all__ = ["Client"]

logger = get_logger("onward")


class Client:
    """Enqueues what its `letters` have sealed.  Knows the store; knows nothing of workers."""

    after_enqueue: Callable[[], None] | None = None  # where jobs run as they are enqueued

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
        self._warned_about_loop = False

    def enqueue(self, envelopes: Sequence[Envelope]) -> list[Enqueued]:
        """Store sealed jobs, durably.  Answers say which were created and which stand for a job that lives already."""
        self._warn_on_event_loop()
        return self._submit(envelopes)

    async def aenqueue(self, envelopes: Sequence[Envelope]) -> list[Enqueued]:
        """The same without blocking the event loop."""
        return await asyncio.to_thread(self._submit, envelopes)

    def _submit(self, envelopes: Sequence[Envelope]) -> list[Enqueued]:
        refuse_to_wait(self._backend)
        with uninterrupted():  # a handler that enqueues may be interrupted, but not here
            answers = self._commit.submit(envelopes) if envelopes else []
            self.count(envelopes, answers)
            if self._telemetry.wants(JobEnqueued) or self._telemetry.wants(JobDeduplicated):
                for envelope, answer in zip(envelopes, answers, strict=True):
                    self._tell(envelope, answer)
        if self.after_enqueue is not None:
            self.after_enqueue()
        return answers

    def booked(self, envelopes: Sequence[Envelope]) -> None:
        """Count and tell jobs that were stored with a change of their schedule."""
        answers = [Enqueued(envelope.id) for envelope in envelopes]
        if answers:
            self.count(envelopes, answers)
        for envelope, answer in zip(envelopes, answers, strict=True):
            self._tell(envelope, answer)

    def count(self, envelopes: Sequence[Envelope], answers: Sequence[Enqueued]) -> None:
        """Count what was stored, or handed over to a transaction of the caller's, and what stands for another job."""
        if len(envelopes) == 1:  # nearly always
            self._metrics.add("jobs_enqueued" if answers[0].created else "jobs_deduplicated", envelopes[0].queue)
            return
        counts: Counter[tuple[str, str]] = Counter()
        for envelope, answer in zip(envelopes, answers, strict=True):
            counts["jobs_enqueued" if answer.created else "jobs_deduplicated", envelope.queue] += 1
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
        # The public `get_running_loop` raises where there is none, and that costs ten times as much as the question.
        if self._warned_about_loop or asyncio._get_running_loop() is None:  # noqa: SLF001
            return
        self._warned_about_loop = True
        logger.warning(
            "enqueue() blocks the running event loop until the job is durable: use `await job.aenqueue(...)`"
        )
