"""The families of metrics: the name, kind, labels and meaning of each.  What is written of metrics is made from these.

Labels are bounded: at most 256 pairs of queue and job, at most 100 queues of the store, and words of our own.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from onward.telemetry.counters import COUNTERS

__all__ = [
    "BUILD_INFO", "COUNTED", "DEAD_LETTERS", "EVENTS_DROPPED", "FAMILIES", "OLDEST_DUE", "PROCESSES", "QUEUE_JOBS",
    "QUEUE_PAUSED", "RESTARTS", "RUN_SECONDS", "SESSIONS", "SLOTS", "SLOTS_BUSY", "STORE_UP", "TURN_SECONDS", "WAIT_SECONDS",
    "Family", "Kind",
]  # fmt: skip

Kind = Literal["counter", "gauge", "histogram", "summary"]


class Family(NamedTuple):
    """A metric, with all that its samples have in common."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str


COUNTED = {name: Family(f"onward_{name}_total", "counter", ("queue", "job"), text) for name, text in COUNTERS.items()}
"""The families of the counters, by the counter's name."""

RUN_SECONDS = Family("onward_job_run_seconds", "histogram", ("queue",), "How long runs took that succeeded or failed.")
WAIT_SECONDS = Family(
    "onward_job_wait_seconds", "histogram", ("queue",), "How long jobs had been due when they were first claimed."
)

PROCESSES = Family("onward_worker_processes", "gauge", (), "Worker processes that have started.")
SLOTS = Family("onward_worker_slots", "gauge", (), "Jobs that these processes can run at once.")
SLOTS_BUSY = Family("onward_worker_slots_busy", "gauge", (), "Runs that have begun and are not settled.")
RESTARTS = Family(
    "onward_worker_restarts_total", "counter", ("cause",), "Worker processes that were replaced, by cause."
)
TURN_SECONDS = Family(
    "onward_turn_seconds",
    "summary",
    (),
    "How long the store took for each turn of a worker process, which settles and claims.",
)
STORE_UP = Family("onward_store_up", "gauge", (), "1 if the store answered the last question, else 0.")
EVENTS_DROPPED = Family("onward_events_dropped_total", "counter", (), "Events that slow subscribers did not get.")
BUILD_INFO = Family("onward_build_info", "gauge", ("version", "build"), "1, with the version of Onward and the build.")

QUEUE_JOBS = Family(
    "onward_queue_jobs", "gauge", ("queue", "state"), "Live jobs of a queue; 10000 means that many or more."
)
OLDEST_DUE = Family(
    "onward_queue_oldest_due_seconds",
    "gauge",
    ("queue",),
    "How long ago the job became due that waits for longest; 0: none is due.",
)
QUEUE_PAUSED = Family("onward_queue_paused", "gauge", ("queue",), "1 if the queue is paused, else 0.")
DEAD_LETTERS = Family("onward_dead_letters", "gauge", (), "Discarded jobs; 10000 means that many or more.")
SESSIONS = Family("onward_sessions", "gauge", ("state",), "Sessions of workers, live or expired.")

FAMILIES: dict[str, tuple[Family, ...]] = {
    "jobs": (*COUNTED.values(), RUN_SECONDS, WAIT_SECONDS),
    "worker": (PROCESSES, SLOTS, SLOTS_BUSY, RESTARTS, TURN_SECONDS, STORE_UP, EVENTS_DROPPED, BUILD_INFO),
    "store": (QUEUE_JOBS, OLDEST_DUE, QUEUE_PAUSED, DEAD_LETTERS, SESSIONS),
}
"""All of them, by what they tell of."""
