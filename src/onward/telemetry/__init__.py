"""A door to events for subscribers, counters, and milestones that tests wait for.

Here: `events` (the events and the thread that delivers them), `numbers` (what was counted of one job in one queue),
`counters` (the table in memory that processes share), `metrics` (the counters of an application), `families` and
`exposition` (metrics as text), `milestones` (what the loops of a worker have done).
Called by everything that reports: attempts, clients, workers, the supervisor.
"""

from __future__ import annotations

from onward.telemetry.events import (
    Event,
    HealthChanged,
    JobCancelled,
    JobCompleted,
    JobDeduplicated,
    JobDiscarded,
    JobEnqueued,
    JobEvent,
    JobFailed,
    JobLeaseLost,
    JobParked,
    JobRescued,
    JobSnoozed,
    JobStarted,
    OperatorActed,
    QueuePaused,
    QueueResumed,
    ScheduleRejected,
    Telemetry,
    TicksMissed,
)
from onward.telemetry.metrics import Metrics
from onward.telemetry.milestones import Milestones

__all__ = [
    "Event",
    "HealthChanged",
    "JobCancelled",
    "JobCompleted",
    "JobDeduplicated",
    "JobDiscarded",
    "JobEnqueued",
    "JobEvent",
    "JobFailed",
    "JobLeaseLost",
    "JobParked",
    "JobRescued",
    "JobSnoozed",
    "JobStarted",
    "Metrics",
    "Milestones",
    "OperatorActed",
    "QueuePaused",
    "QueueResumed",
    "ScheduleRejected",
    "Telemetry",
    "TicksMissed",
]
