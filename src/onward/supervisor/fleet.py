"""The worker processes of a supervisor: which has which slot, which drain, and when the next one starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from onward.base.backoff import doubling
from onward.base.logs import get_logger
from onward.supervisor.options import ProcessOptions
from onward.supervisor.process import WorkerProcess

__all__ = ["Fleet"]

logger = get_logger("onward.supervisor")

_HEALTHY_AFTER = 10.0  # seconds after the start: a later death does not count as one of a series
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 30.0


@dataclass(slots=True)
class _Slot:
    """One place for a worker process; when a process ends, the fleet starts another in its slot."""

    options: ProcessOptions
    process: WorkerProcess | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    deaths: int = 0  # in a row, each soon after the start
    done: bool = False  # no process will be started here any more

    def pause(self, now: float) -> None:
        """Set when the next process starts: at once after the first death, then after a pause that doubles."""
        pause = 0.0 if self.deaths <= 1 else doubling(_FIRST_PAUSE, self.deaths - 1, _LONGEST_PAUSE)
        self.start_at = now + pause


class Fleet:
    """Keeps every slot filled, after a pause that grows where processes die soon after their start."""

    def __init__(
        self,
        program: Sequence[str],
        options: ProcessOptions,
        count: int,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._program = program
        self._clock = clock
        self._slots = [_Slot(share) for share in _shares(options, count)]
        self._living: dict[int, WorkerProcess] = {}  # by pid
        self._started = 0
        self.failed_starts = 0  # in a row: processes that ended before they said hello

    def __iter__(self) -> Iterator[WorkerProcess]:
        return iter(list(self._living.values()))

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def done(self) -> bool:
        """Whether no process runs and none will be started."""
        return not self._living and all(slot.done for slot in self._slots)

    def by_pid(self, pid: int) -> WorkerProcess | None:
        return self._living.get(pid)

    def start_due(self) -> Iterator[WorkerProcess]:
        """Start a process in every slot that is due."""
        now = self._clock()
        for slot in self._slots:
            if slot.process is None and not slot.done and slot.start_at <= now:
                try:
                    process = WorkerProcess(self._started, self._program, slot.options)
                except OSError as error:  # the system has no process, memory or file left now, and may have some later
                    slot.deaths = max(2, slot.deaths + 1)  # an immediate second try would fail too
                    slot.pause(now)
                    logger.error("a worker process cannot be started, and will be tried again: %s", error)  # noqa: TRY400
                    continue
                slot.process, slot.started_at = process, now
                self._started += 1
                self._living[process.pid] = process
                yield process

    def next_start(self) -> float:
        """Return when the next process is to be started, on the monotonic clock."""
        return min(
            (slot.start_at for slot in self._slots if slot.process is None and not slot.done), default=float("inf")
        )

    def retire(self, process: WorkerProcess, *, done: bool = False) -> None:
        """Free the slot of a process that finishes its jobs; ``done``: no other process is needed there.

        Where the fleet runs a limited number of jobs, another process starts only after this one has ended: only then is it
        known how many are left.
        """
        slot = self._slot_of(process)
        if slot is not None:
            slot.done = slot.done or done
            if slot.done or slot.options.max_jobs is None:
                slot.process, slot.start_at, slot.deaths = None, 0.0, 0

    def end(self) -> None:
        """Start no process any more."""
        for slot in self._slots:
            slot.done = True

    def remove(self, process: WorkerProcess, *, polite: bool) -> None:
        """Take out a process that has exited, and free its slot."""
        del self._living[process.pid]
        if process.hello is None:
            self.failed_starts += 1
        slot = self._slot_of(process)
        if slot is None:
            return
        now = self._clock()
        young = now - slot.started_at < _HEALTHY_AFTER
        slot.process = None
        slot.deaths = slot.deaths + 1 if young and not polite else 0
        slot.pause(now)
        if slot.options.max_jobs is not None:
            left = slot.options.max_jobs - process.board.settled()
            slot.options = msgspec.structs.replace(slot.options, max_jobs=left)
            slot.done = slot.done or left <= 0

    def _slot_of(self, process: WorkerProcess) -> _Slot | None:
        return next((slot for slot in self._slots if slot.process is process), None)


def _shares(options: ProcessOptions, count: int) -> Sequence[ProcessOptions]:
    """Give each process its share of the jobs, if the fleet runs a limited number; the first one books schedules."""
    others = msgspec.structs.replace(options, ticks=False)
    if options.max_jobs is None:
        return [options, *[others] * (count - 1)]
    share, rest = divmod(options.max_jobs, count)
    shares = [share + (number < rest) for number in range(count)]
    return [
        msgspec.structs.replace(options if number == 0 else others, max_jobs=each)
        for number, each in enumerate(shares)
        if each
    ]
