"""What enqueues: the store, the keys, the registry and the client, and the handles of what they have stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from onward.backend import Backend
from onward.backends.opening import located, open_store
from onward.base.clock import Clock, SystemClock
from onward.client.auditing import Auditor
from onward.client.booking import Booker
from onward.client.bound_job import HandleSource
from onward.client.client import Client
from onward.client.flow_source import FlowSource
from onward.client.flow_template import FlowStarter
from onward.client.laning import Lanes
from onward.client.letters import LetterWriter, refuse_what_it_lacks
from onward.client.record import Records
from onward.client.schedules import ScheduleWriter
from onward.config import Settings, to_environment
from onward.job.registry import Handler, HandlerEntry, Registry
from onward.job.states import State
from onward.operate.declarations import Declarations
from onward.operate.flows import FlowControl
from onward.operate.unsupported_inspection import inspection_of
from onward.security.keys import Keys
from onward.security.signing import Unverified
from onward.telemetry import Metrics, Telemetry

if TYPE_CHECKING:
    from onward.handlers import Configured

__all__ = ["Producer"]


class Producer:
    """The parts that a program needs to define jobs, flows and schedules, to enqueue them, and to wait for their results."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock | None,
        queue_handlers: Mapping[str, Sequence[str]] | None,
        lanes: Lanes,
        *,
        unverified: Unverified,
        cancel: Callable[..., State | None],
        hopeless: Callable[[], bool],
    ) -> None:
        self.settings = settings
        self.metrics = Metrics(enabled=settings.metrics)
        self.telemetry = Telemetry()
        # Before the store is opened: without a key nothing may be stored that should be encrypted.
        self.keys = Keys(
            settings.signing_keys,
            settings.namespace,
            encrypts=settings.encryption,
            signing=settings.signing,
            unverified=unverified,
        )
        self.backend: Backend = open_store(settings, clock)
        self.clock: Clock = getattr(self.backend, "clock", None) or clock or SystemClock()
        self.registry = Registry(queue_handlers)
        self.handlers: dict[str, Handler] = {}
        self.lanes, lanes.digest, lanes.declared_at = lanes, self.keys.encryption.key, self.clock.micros()
        asked = {"fair_by": lanes.fair_by is not None, "queue_limits": lanes.limits_queues}
        refuse_what_it_lacks(self.backend.capabilities, "Onward()", **asked)
        letters = LetterWriter(settings, self.registry, self.backend, self.keys, self.clock, lanes=lanes)
        self.client = Client(
            self.backend, letters, self.telemetry, self.metrics, enqueue_timeout=settings.enqueue_timeout
        )
        self.registry.add_own(FlowStarter(self.backend, self.client, settings.namespace))
        self.inspection = inspection_of(self.backend)
        self.records = Records(self.keys.encryption, self.registry)
        self.handles = HandleSource(self.inspection, records=self.records, cancel=cancel, hopeless=hopeless)
        self._make_schedules(letters)
        self._make_flows()

    def _make_schedules(self, letters: LetterWriter) -> None:
        self.schedule_writer = ScheduleWriter(letters, self.keys, self.settings.namespace)
        self.booker = Booker(
            self.backend,
            self.schedule_writer,
            self.registry,
            self.telemetry,
            clock=self.clock,
            booked=self.client.booked,
        )
        self.declarations = Declarations(self.schedule_writer, self.booker, self.settings.environment)

    def _make_flows(self) -> None:
        self.auditor = Auditor(
            self.backend,
            self.inspection,
            clock=self.clock,
            signing=self.keys.signing,
            records=self.records,
            telemetry=self.telemetry,
        )
        self.flow_source = FlowSource(
            self.backend, self.inspection, self.client, self.handles, self.keys.note_seals, auditor=self.auditor
        )
        self.flows = FlowControl(self.flow_source)

    def add_handlers(self, configured: Mapping[str, Configured]) -> None:
        """Register the handlers that jobs name by key."""
        from onward import handlers  # a program without them does not load them

        self.handlers = handlers.build(configured, store=self._whereabouts())
        for key, handler in self.handlers.items():
            self.registry.add(HandlerEntry(key, handler))

    def refuse_to_run(self) -> None:
        """Raise if jobs must be verified and there is no key, or if a schedule has no job."""
        self.keys.refuse_without_key()
        self.declarations.refuse_unmade()

    def _whereabouts(self) -> dict[str, str | None] | None:
        """Return the environment in which another process finds the same store and settings; None if none could find it."""
        return to_environment(located(self.settings, self.backend)) if self.backend.capabilities.shared else None
