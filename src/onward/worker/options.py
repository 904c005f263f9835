"""The parts that a worker gets from its application, its options, and the order in which it serves queues."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import msgspec

from onward.attempt.attempt import Runtime
from onward.attempt.report import Reporter
from onward.attempt.settle import Settler
from onward.backend import Backend, LimitRow, Reaped
from onward.base.durations import Duration, seconds
from onward.base.names import is_pattern, queue_name, queue_pattern, serves
from onward.errors import OptionError
from onward.telemetry import Telemetry
from onward.worker.session import SendsSamples

__all__ = ["QueuePlan", "WorkerOptions", "WorkerParts"]


def _nothing() -> None: ...


class WorkerParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an application that a worker needs."""

    backend: Backend
    runtime: Runtime
    reporter: Reporter
    telemetry: Telemetry
    lease_for: timedelta
    settler: Settler
    rescued: Callable[[Sequence[Reaped]], None]
    reap: Callable[[], object]
    prune: Callable[[], object]
    tick: Callable[[], object] | None = None  # books what schedules have due; None: another process does
    tick_every: float = 10.0  # seconds
    limits: Callable[[], tuple[LimitRow, ...]] = tuple  # that its sessions declare
    key_ids: Callable[[], Sequence[str]] = tuple  # of the keys that it verifies with
    key_file: bool = False  # whether they come from a file, and may change
    samples: SendsSamples | None = None  # None: another process sends them, or none does
    on_sampler: Callable[[], None] = _nothing  # called in the one process of the fleet that looks at the store for all


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker works."""

    queues: Sequence[str]
    """Which queues, in strict order, or with weights: `{"mail": 3, "default": 1}`. A `*` stands for any part of a name. Else
    those of the registered jobs, and `default`."""
    concurrency: int = 10
    """How many jobs run at once."""
    weights: Mapping[str, int] = msgspec.field(default_factory=dict)
    per_process: Mapping[str, int] = msgspec.field(default_factory=dict)
    """How many jobs of single queues run at once in this worker: `{"mail": 2, "tenant.*": 1}`."""
    shutdown_timeout: float = 25.0
    """How long `stop()` waits for what runs."""
    blocked_loop_after: float = 1.0
    """After how long an async handler that blocks the event loop is named in the log; 0: never."""

    @classmethod
    def check(
        cls,
        queues: Sequence[str] | Mapping[str, int],
        concurrency: int,
        per_process: Mapping[str, int],
        shutdown_timeout: Duration,
        blocked_loop_after: Duration = 1,
    ) -> WorkerOptions:
        """Check the arguments of `jobs.worker(...)`, and return them as options."""
        if isinstance(queues, str):
            raise OptionError(f"queues must be a list of names, not the text {queues!r}")
        served = list(dict.fromkeys(_served_name(queue) for queue in queues))
        if not served:
            raise OptionError("queues is empty: a worker needs at least one")
        weights = dict(queues) if isinstance(queues, Mapping) else {}
        for what, numbers in (("weight", weights), ("limit", per_process)):
            for queue, number in numbers.items():
                if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                    raise OptionError(f"the {what} of queue {queue!r} must be a whole number from 1, not {number!r}")
        unserved = [queue for queue in per_process if not serves(served, queue)]
        if unserved:
            raise OptionError(f"per_process names {unserved[0]!r}, which this worker does not serve")
        if isinstance(concurrency, bool) or not isinstance(concurrency, int) or not 1 <= concurrency <= 10_000:
            raise OptionError(f"concurrency must be a whole number from 1 to 10,000, not {concurrency!r}")
        return cls(
            queues=served,
            concurrency=concurrency,
            weights=weights,
            per_process=dict(per_process),
            shutdown_timeout=seconds(shutdown_timeout, "shutdown_timeout"),
            blocked_loop_after=seconds(blocked_loop_after, "blocked_loop_after"),
        )


def _served_name(queue: str) -> str:
    return queue_pattern(queue) if isinstance(queue, str) and is_pattern(queue) else queue_name(queue)


class QueuePlan:
    """Which queues to claim from, in which order, and how many jobs of each may be claimed at once."""

    open_ended = False  # whether it has patterns, and has to ask the store which queues have work

    def __init__(self, queues: Sequence[str], weights: Mapping[str, int], limits: Mapping[str, int]) -> None:
        self.queues = tuple(queues)
        self._weights = [weights.get(queue, 0) for queue in self.queues]
        self.fixed_order = () if any(self._weights) else self.queues  # empty: it is drawn anew for every claim
        self._limits = dict(limits)
        self.limited = bool(limits)

    def order(self) -> tuple[str, ...]:
        """Return the queues as given; with weights, a draw in which a queue of weight 3 is first three times as often."""
        if self.fixed_order:
            return self.fixed_order
        keyed = [
            (random.random() ** (1 / max(weight, 1)), queue)
            for queue, weight in zip(self.queues, self._weights, strict=True)
        ]
        return tuple(queue for _, queue in sorted(keyed, reverse=True))

    def look(self, backend: Backend) -> None:
        """Ask the store which queues have work, if the plan has patterns."""

    def emptied(self, claimed: Sequence[str]) -> bool:
        """Note that a claim found less in these queues than it asked for.  Returns whether others may have work."""
        return False

    def listened(self, queues: tuple[str, ...]) -> tuple[str, ...]:
        """Return the queues to listen to, when these would be claimed from."""
        return queues

    def room(self, inflight: Mapping[str, int]) -> dict[str, int]:
        """Return for each limited queue how many more of its jobs may be claimed."""
        return {queue: max(0, limit - inflight.get(queue, 0)) for queue, limit in self._limits.items()}
