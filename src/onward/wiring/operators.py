"""What looks at jobs and steers them: made when a person, a screen or a worker first asks."""

from __future__ import annotations

from onward.attempt.notebook import notes_of
from onward.attempt.report import Reporter
from onward.base.credentials import without_credentials
from onward.operate.acts import Acts
from onward.operate.bulk import Bulk
from onward.operate.canary import Canary
from onward.operate.dead_letters import DeadLetters
from onward.operate.editing import Editor
from onward.operate.finding import Finder
from onward.operate.health.asking import HealthChecker
from onward.operate.health.findings import HealthSettings
from onward.operate.health.telling import HealthTeller
from onward.operate.inspector import Inspector
from onward.operate.limits import LimitControl
from onward.operate.schedules import ScheduleControl
from onward.operate.series.points import SeriesReader
from onward.operate.signalling import Signaller
from onward.operate.triage import Triage
from onward.operate.why.case import KnownSettings
from onward.operate.why.explaining import Explainer
from onward.wiring.producer import Producer

__all__ = ["Operators"]


class Operators:
    """The parts that show, explain, change and remove jobs, queues, schedules and limits."""

    def __init__(self, producer: Producer) -> None:
        self._of = producer
        self.auditor = auditor = producer.auditor
        self.reporter = Reporter(producer.metrics, producer.telemetry)
        self.notes = notes_of(producer.backend)
        self.signaller = Signaller(self.notes, producer.inspection, producer.keys.note_seals, auditor)
        self._make_inspector()
        self.series = SeriesReader(producer.inspection)
        self.explainer = Explainer(
            producer.backend, producer.inspection, producer.records, self._known_settings(), auditor
        )
        self.health = self._make_health()
        self.health_teller = HealthTeller(self.health, producer.backend, producer.telemetry)
        self.limits = LimitControl(producer.backend, producer.lanes.declared, auditor)
        self.schedules = ScheduleControl(
            producer.backend,
            producer.inspection,
            writer=producer.schedule_writer,
            booker=producer.booker,
            flows=producer.flow_source,
            records=producer.records,
            declarations=producer.declarations,
            auditor=auditor,
        )
        self._make_triage()

    def _make_inspector(self) -> None:
        producer, signing = self._of, self._of.keys.signing
        self.dead_letters = DeadLetters(
            producer.inspection,
            producer.client,
            clock=producer.clock,
            queue=producer.settings.dead_letter_queue,
            encryption=producer.keys.encryption,
            records=producer.records,
            auditor=self.auditor,
            verify=signing.verify if signing.required else None,
        )
        self.inspector = Inspector(
            producer.backend,
            clock=producer.clock,
            reporter=self.reporter,
            telemetry=producer.telemetry,
            dead_letters=self.dead_letters,
            records=producer.records,
            retention=producer.settings.retention,
            auditor=self.auditor,
        )

    def _make_triage(self) -> None:
        producer, inspection, records = self._of, self._of.inspection, self._of.records
        finder = Finder(inspection, records, producer.clock)
        acts = Acts(
            producer.backend,
            inspection,
            producer.client,
            records=records,
            telemetry=producer.telemetry,
            auditor=self.auditor,
        )
        self.bulk = Bulk(finder, acts)
        self.dead_letters.triage = Triage(
            Canary(inspection, finder, self.bulk, acts=acts, explainer=self.explainer, records=records),
            Editor(inspection, producer.client, producer.keys, acts=acts, records=records, clock=producer.clock),
            finder,
        )

    def _known_settings(self) -> KnownSettings:
        settings = self._of.settings
        return KnownSettings(
            namespace=settings.namespace,
            store=without_credentials(settings.store or settings.url),
            retention=settings.retention,
            unknown_grace=settings.unknown_grace,
        )

    def _make_health(self) -> HealthChecker:
        producer, settings, ring = self._of, self._of.settings, self._of.settings.signing_keys
        return HealthChecker(
            producer.backend,
            producer.inspection,
            self.explainer,
            producer.registry,
            producer.schedule_writer,
            auditor=self.auditor,
            clock=producer.clock,
            settings=HealthSettings(
                late_after=settings.late_after,
                queue_late_after=settings.queue_late_after,
                signing_key="" if ring is None else ring.signing.id,
            ),
        )
