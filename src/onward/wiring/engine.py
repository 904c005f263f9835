"""What runs jobs: made when a program first runs one, checks a build, or makes a worker."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

import msgspec

from onward.attempt.attempt import Attempt, Runtime
from onward.attempt.breakers import Breakers
from onward.attempt.occurrences import Occurrences
from onward.attempt.settle import Settler
from onward.backend import Lease
from onward.base.failure import storable
from onward.client.record import JobRecord
from onward.errors import BackendUnavailable
from onward.job.results import Results
from onward.job.retry import DEFAULT_POLICY
from onward.job.states import State
from onward.operate.deploy.gate import DeployGate
from onward.operate.retry_times import retry_times
from onward.operate.series.sampling import sampling
from onward.transactions.blocks import Blocks
from onward.transactions.completing import note_after_completion, open_block
from onward.transactions.joining import Joins
from onward.wiring.operators import Operators
from onward.wiring.producer import Producer
from onward.worker.inline import InlineRunner
from onward.worker.options import WorkerOptions, WorkerParts
from onward.worker.worker import Worker

__all__ = ["Engine"]


class Engine:
    """The parts that claim, run and settle jobs: in the caller's thread, or in workers."""

    def __init__(self, producer: Producer, operators: Operators, joins: Joins) -> None:
        self._of, self._operators = producer, operators
        settings, keys = producer.settings, producer.keys
        results = Results(producer.registry, settings.max_payload)
        self._settler = Settler(
            producer.backend,
            keys.note_seals,
            operators.dead_letters.copy_of,
            Breakers(producer.backend, producer.registry, producer.clock),
            keep_completed=settings.retention[State.COMPLETED] != 0,
            drop_dead=settings.drop_on_dlq_failure,
        )
        blocks = Blocks(
            joins,
            at_most=min(settings.transaction_timeout, settings.lease_for / 3),
            asked_for=settings.lease_for,
            results=results,
            settler=self._settler,
        )
        self._runtime = self._make_runtime(results, blocks)
        self.gate = DeployGate(
            producer.backend,
            producer.inspection,
            self._runtime,
            producer.records,
            declared=producer.booker.declared,
            refuse_to_run=producer.refuse_to_run,
        )
        self.runner = InlineRunner(
            producer.backend,
            self._runtime,
            operators.reporter,
            producer.telemetry,
            self._settler,
            lease_for=timedelta(seconds=settings.lease_for),
            tick=producer.booker.look_if_due,
            limits=producer.lanes.declared,
        )
        self._samples = sampling(
            producer.backend,
            producer.metrics.numbers,
            settings,
            producer.clock,
            dropped=lambda: producer.telemetry.dropped,
        )

    def _make_runtime(self, results: Results, blocks: Blocks) -> Runtime:
        producer, settings, keys = self._of, self._of.settings, self._of.keys
        return Runtime(
            registry=producer.registry,
            clock=producer.clock,
            namespace=settings.namespace,
            default_max_retries=settings.default_max_retries,
            default_retry=DEFAULT_POLICY if settings.default_retry is None else settings.default_retry,
            queue_retry=settings.queue_retry,
            unknown_grace=settings.unknown_grace,
            results=results,
            report=self._report_progress,
            transact=partial(open_block, blocks),
            note_after_completion=self._note_after_completion,
            encryption=keys.encryption,
            notes=self._operators.notes,
            note_seals=keys.note_seals,
            notes_tried_for=settings.lease_for,
            occurrences=Occurrences(producer.backend, producer.inspection, settings.namespace),
            flows=producer.flows,
            verify=keys.signing.verify,
            requires_signatures=keys.signing.required,
        )

    def of_worker(self, *, ticks: bool = True, deployed_at: int | None = None) -> WorkerParts:
        """Return what a worker is made of; raise if it could not work."""
        producer, operators = self._of, self._operators
        producer.refuse_to_run()
        if deployed_at is not None:
            producer.booker.declared_at = producer.lanes.declared_at = deployed_at
        producer.keys.watch()
        return WorkerParts(
            backend=producer.backend,
            runtime=self._runtime,
            reporter=operators.reporter,
            telemetry=producer.telemetry,
            lease_for=timedelta(seconds=producer.settings.lease_for),
            settler=self._settler,
            rescued=operators.inspector.rescued,
            reap=operators.inspector.reap,
            prune=operators.inspector.prune,
            tick=producer.booker.look if ticks else None,
            limits=producer.lanes.declared,
            key_ids=lambda: producer.keys.signing.key_ids,
            key_file=producer.keys.file is not None,
            on_sampler=operators.health_teller.on_sampler,
        )

    def worker(self, options: WorkerOptions) -> Worker:
        """Make a worker on threads of this process."""
        return Worker(msgspec.structs.replace(self.of_worker(), samples=self._samples), options)

    def retry_times(self, record: JobRecord) -> Sequence[datetime]:
        """Return the instants of the retries to come, twenty at most."""
        return retry_times(self._runtime, record)

    def _note_after_completion(self, attempt: Attempt) -> None:
        note_after_completion(self._of.backend, attempt, self._of.keys.encryption.failure)

    def _report_progress(self, lease: Lease, fraction: float, note: str | None) -> bool:
        words = None if note is None else storable(note)
        progress = {"fraction": fraction, "note": self._of.keys.encryption.note(lease, words)}
        try:
            return self._of.inspection.progress(lease, msgspec.json.encode(progress))
        except BackendUnavailable:
            return True  # the next report tells it; a job does not fail for it
