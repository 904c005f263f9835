"""From settings to parts: the one module that knows which objects an application is made of, and in which order.

    store, keys, registry ─▶ client ─▶ dead letters, inspector, handles ─▶ transactions ─▶ runtime ─▶ runner, workers

The wiring reaches no server and starts no thread: the first use of the store connects.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec

from onward import handlers as keyed
from onward.attempt.attempt import Attempt, Runtime
from onward.attempt.breakers import Breakers
from onward.attempt.notebook import notes_of
from onward.attempt.occurrences import Occurrences
from onward.attempt.report import Reporter
from onward.attempt.settle import Settler
from onward.backend import Backend, Inline, Lease
from onward.backends.opening import located, open_store
from onward.base.clock import Clock, SystemClock
from onward.base.credentials import without_credentials
from onward.base.failure import storable
from onward.client.auditing import Auditor
from onward.client.booking import Booker
from onward.client.bound_job import HandleSource, bind
from onward.client.client import Client
from onward.client.flow_source import FlowSource
from onward.client.flow_template import FlowStarter
from onward.client.laning import Lanes
from onward.client.letters import LetterWriter, refuse_what_it_lacks
from onward.client.record import Records
from onward.client.schedules import ScheduleWriter
from onward.config import Settings, to_environment
from onward.errors import BackendUnavailable
from onward.job.registry import HandlerEntry, Registry
from onward.job.results import Results
from onward.job.retry import DEFAULT_POLICY
from onward.job.states import State
from onward.operate.acts import Acts
from onward.operate.bulk import Bulk
from onward.operate.canary import Canary
from onward.operate.dead_letters import DeadLetters
from onward.operate.declarations import Declarations
from onward.operate.deploy.gate import DeployGate
from onward.operate.editing import Editor
from onward.operate.finding import Finder
from onward.operate.flows import FlowControl
from onward.operate.health.asking import HealthChecker
from onward.operate.health.findings import HealthSettings
from onward.operate.health.telling import HealthTeller
from onward.operate.inspector import Inspector
from onward.operate.limits import LimitControl
from onward.operate.retry_times import retry_times
from onward.operate.schedules import ScheduleControl
from onward.operate.series.points import SeriesReader
from onward.operate.series.sampling import sampling
from onward.operate.signalling import Signaller
from onward.operate.triage import Triage
from onward.operate.unsupported_inspection import inspection_of
from onward.operate.why.case import KnownSettings
from onward.operate.why.explaining import Explainer
from onward.security.keys import Keys
from onward.telemetry import Metrics, Telemetry
from onward.transactions.blocks import Blocks
from onward.transactions.completing import note_after_completion, open_block
from onward.transactions.joining import Joins
from onward.worker.inline import InlineRunner
from onward.worker.options import WorkerOptions, WorkerParts
from onward.worker.worker import Worker

__all__ = ["Parts"]


class Parts:
    """The parts of one application."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock | None,
        handlers: Mapping[str, keyed.Configured],
        queue_handlers: Mapping[str, Sequence[str]] | None,
        lanes: Lanes,
    ) -> None:
        self.settings = settings
        self.metrics = Metrics(enabled=settings.metrics)
        self.telemetry = Telemetry()
        self.reporter = Reporter(self.metrics, self.telemetry)
        # Before the store is opened: without a key nothing may be stored that should be encrypted.
        self.keys = Keys(
            settings.signing_keys,
            settings.namespace,
            encrypts=settings.encryption,
            signing=settings.signing,
            unverified=self.reporter.unverified,
        )
        self.backend: Backend = open_store(settings, clock)
        self.clock: Clock = getattr(self.backend, "clock", None) or clock or SystemClock()
        self.registry = Registry(queue_handlers)
        self.handlers = keyed.build(handlers, store=_whereabouts(settings, self.backend))
        for key, handler in self.handlers.items():
            self.registry.add(HandlerEntry(key, handler))
        self._workers: weakref.WeakSet[Worker] = weakref.WeakSet()  # those that run are held by their threads
        self._lanes, lanes.digest, lanes.declared_at = lanes, self.keys.encryption.key, self.clock.micros()
        asked = {"fair_by": lanes.fair_by is not None, "queue_limits": lanes.limits_queues}
        refuse_what_it_lacks(self.backend.capabilities, "Onward()", **asked)
        self._make_producer()
        self._make_operators()
        self._make_triage()
        self._make_engine()
        self._make_runner()
        self._samples = sampling(
            self.backend, self.metrics.numbers, self.settings, self.clock, dropped=lambda: self.telemetry.dropped
        )

    def _make_producer(self) -> None:
        settings = self.settings
        letters = LetterWriter(settings, self.registry, self.backend, self.keys, self.clock, lanes=self._lanes)
        self.client = Client(
            self.backend, letters, self.telemetry, self.metrics, enqueue_timeout=settings.enqueue_timeout
        )
        self.registry.add_own(FlowStarter(self.backend, self.client, settings.namespace))
        self._schedule_writer = ScheduleWriter(letters, self.keys, settings.namespace)
        self._booker = Booker(
            self.backend,
            self._schedule_writer,
            self.registry,
            self.telemetry,
            clock=self.clock,
            booked=self.client.booked,
        )

    def _make_operators(self) -> None:
        self.inspection = inspection_of(self.backend)
        self._notes = notes_of(self.backend)
        signing, records = self.keys.signing, Records(self.keys.encryption, self.registry)
        self._records = records
        self.auditor = auditor = self._make_auditor(records)
        self.signaller = Signaller(self._notes, self.inspection, self.keys.note_seals, auditor)
        self.dead_letters = DeadLetters(
            self.inspection,
            self.client,
            clock=self.clock,
            queue=self.settings.dead_letter_queue,
            encryption=self.keys.encryption,
            records=records,
            auditor=auditor,
            verify=signing.verify if signing.required else None,
        )
        self.inspector = Inspector(
            self.backend,
            clock=self.clock,
            reporter=self.reporter,
            telemetry=self.telemetry,
            dead_letters=self.dead_letters,
            records=records,
            retention=self.settings.retention,
            auditor=auditor,
        )
        self.handles = HandleSource(
            self.inspection, records=records, cancel=self.inspector.cancel, hopeless=self._is_hopeless
        )
        flows = FlowSource(
            self.backend, self.inspection, self.client, self.handles, self.keys.note_seals, auditor=auditor
        )
        self.flows = FlowControl(flows)
        self.series = SeriesReader(self.inspection)
        self.explainer = Explainer(self.backend, self.inspection, records, self._known_settings(), auditor)
        self.health = self._health()
        self.health_teller = HealthTeller(self.health, self.backend, self.telemetry)
        self.limits = LimitControl(self.backend, self._lanes.declared, auditor)
        self.declarations = Declarations(self._schedule_writer, self._booker, self.settings.environment)
        self.schedules = ScheduleControl(
            self.backend,
            self.inspection,
            writer=self._schedule_writer,
            booker=self._booker,
            flows=flows,
            records=records,
            declarations=self.declarations,
            auditor=auditor,
        )

    def _make_auditor(self, records: Records) -> Auditor:
        return Auditor(
            self.backend,
            self.inspection,
            clock=self.clock,
            signing=self.keys.signing,
            records=records,
            telemetry=self.telemetry,
        )

    def _make_triage(self) -> None:
        records, finder = self._records, Finder(self.inspection, self._records, self.clock)
        acts = Acts(
            self.backend,
            self.inspection,
            self.client,
            records=records,
            telemetry=self.telemetry,
            auditor=self.auditor,
        )
        self.bulk = Bulk(finder, acts)
        self.dead_letters.triage = Triage(
            Canary(self.inspection, finder, self.bulk, acts=acts, explainer=self.explainer, records=records),
            Editor(self.inspection, self.client, self.keys, acts=acts, records=records, clock=self.clock),
            finder,
        )

    def _known_settings(self) -> KnownSettings:
        settings = self.settings
        return KnownSettings(
            namespace=settings.namespace,
            store=without_credentials(settings.store or settings.url),
            retention=settings.retention,
            unknown_grace=settings.unknown_grace,
        )

    def _health(self) -> HealthChecker:
        settings, ring = self.settings, self.settings.signing_keys
        return HealthChecker(
            self.backend,
            self.inspection,
            self.explainer,
            self.registry,
            self._schedule_writer,
            auditor=self.auditor,
            clock=self.clock,
            settings=HealthSettings(
                late_after=settings.late_after,
                queue_late_after=settings.queue_late_after,
                signing_key="" if ring is None else ring.signing.id,
            ),
        )

    def _make_engine(self) -> None:
        settings, keys = self.settings, self.keys
        results = Results(self.registry, settings.max_payload)
        self._settler = Settler(
            self.backend,
            keys.note_seals,
            self.dead_letters.copy_of,
            Breakers(self.backend, self.registry, self.clock),
            keep_completed=settings.retention[State.COMPLETED] != 0,
            drop_dead=settings.drop_on_dlq_failure,
        )
        self.joins = Joins(self.backend, self.client, self.handles)
        blocks = Blocks(
            self.joins,
            at_most=min(settings.transaction_timeout, settings.lease_for / 3),
            asked_for=settings.lease_for,
            results=results,
            settler=self._settler,
        )
        self._runtime = Runtime(
            registry=self.registry,
            clock=self.clock,
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
            notes=self._notes,
            note_seals=keys.note_seals,
            notes_tried_for=settings.lease_for,
            occurrences=Occurrences(self.backend, self.inspection, settings.namespace),
            flows=self.flows,
            verify=keys.signing.verify,
            requires_signatures=keys.signing.required,
        )

        self.retry_times = partial(retry_times, self._runtime)
        self.gate = DeployGate(
            self.backend,
            self.inspection,
            self._runtime,
            self._records,
            declared=self._booker.declared,
            refuse_to_run=self.refuse_to_run,
        )

    def _make_runner(self) -> None:
        self.runner = InlineRunner(
            self.backend,
            self._runtime,
            self.reporter,
            self.telemetry,
            self._settler,
            lease_for=timedelta(seconds=self.settings.lease_for),
            tick=self._booker.look_if_due,
            limits=self._lanes.declared,
        )
        if isinstance(self.backend, Inline):
            self.client.after_enqueue = self.runner.run_inline
            self.schedules.run_due = self.runner.run_due

    def bind(self, options: Mapping[str, Any], function: Callable[..., Any]) -> Any:
        """Make a function a job, and declare the schedules that were said below."""
        job = bind(function, options, self.client, self.handles)
        self.declarations.adopt(function, job)
        return job

    def refuse_to_run(self) -> None:
        """Raise if jobs must be verified and there is no key, or if a schedule has no job."""
        self.keys.refuse_without_key()
        self.declarations.refuse_unmade()

    def of_worker(self, *, ticks: bool = True, deployed_at: int | None = None) -> WorkerParts:
        """Return what a worker is made of; raise if it could not work."""
        self.refuse_to_run()
        if deployed_at is not None:
            self._booker.declared_at = self._lanes.declared_at = deployed_at
        self.keys.watch()
        return WorkerParts(
            backend=self.backend,
            runtime=self._runtime,
            reporter=self.reporter,
            telemetry=self.telemetry,
            lease_for=timedelta(seconds=self.settings.lease_for),
            settler=self._settler,
            rescued=self.inspector.rescued,
            reap=self.inspector.reap,
            prune=self.inspector.prune,
            tick=self._booker.look if ticks else None,
            limits=self._lanes.declared,
            key_ids=lambda: self.keys.signing.key_ids,
            key_file=self.keys.file is not None,
            on_sampler=self.health_teller.on_sampler,
        )

    def worker(self, options: WorkerOptions) -> Worker:
        """Make a worker on threads of this process."""
        worker = Worker(msgspec.structs.replace(self.of_worker(), samples=self._samples), options)
        self._workers.add(worker)
        return worker

    def running_workers(self) -> list[Worker]:
        """Return the workers of this process that have not stopped."""
        return [worker for worker in list(self._workers) if worker.running]

    def close_store(self) -> None:
        """Close the store and stop looking at the file of the keys."""
        self.keys.close()
        self.backend.close()

    def _is_hopeless(self) -> bool:
        """Return whether a job that waits can never be run: no other process sees it, and no worker runs in this one."""
        return not self.backend.capabilities.shared and not self.running_workers()

    def _note_after_completion(self, attempt: Attempt) -> None:
        note_after_completion(self.backend, attempt, self.keys.encryption.failure)

    def _report_progress(self, lease: Lease, fraction: float, note: str | None) -> bool:
        words = None if note is None else storable(note)
        progress = {"fraction": fraction, "note": self.keys.encryption.note(lease, words)}
        try:
            return self.inspection.progress(lease, msgspec.json.encode(progress))
        except BackendUnavailable:
            return True  # the next report tells it; a job does not fail for it


def _whereabouts(settings: Settings, backend: Backend) -> dict[str, str | None] | None:
    """Return the environment in which another process finds the same store and settings; None if none could find it."""
    return to_environment(located(settings, backend)) if backend.capabilities.shared else None
