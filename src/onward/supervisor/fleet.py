"""The worker processes of a supervisor: which has which slot, which drain, and when the next one starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from onward.base.backoff import doubling
from onward.base.logs import get_logger
from onward.supervisor.options import ProcessOptions
from onward.supervisor.process import WorkerProcess, fresh_interpreter
from onward.supervisor.template import WorkerTemplate
from onward.supervisor.worker_forks import RequestRefused, WorkerForks

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
    fresh: bool = False  # the next process is a fresh interpreter: the template could not give one

    def is_due(self, now: float) -> bool:
        return self.process is None and not self.done and self.start_at <= now

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
        template: WorkerTemplate | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``template``: from which processes are forked; without it they are fresh interpreters."""
        self._program = program
        self._forks = WorkerForks(template, clock)
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
        forks = self._forks
        return not (self._living or forks.awaited or forks.template_pid) and all(slot.done for slot in self._slots)

    def by_pid(self, pid: int) -> WorkerProcess | None:
        return self._living.get(pid)

    def start_due(self) -> Iterator[WorkerProcess]:
        """Start a process in every slot that is due.  Those that the template forks come from `forked` later."""
        now = self._clock()
        due = [slot for slot in self._slots if slot.is_due(now)]
        if any(not slot.fresh for slot in due):
            self._forks.prepare()
        for slot in due:
            if not slot.fresh and self._forks.wanted and not self._forks.ready:
                continue  # the template imports the application
            try:
                process = self._start(slot)
            except RequestRefused:
                slot.fresh = True
                continue
            except OSError as error:  # the system has no process, memory or file left now, and may have some later
                self._failed(slot, error)
                continue
            slot.process, slot.started_at, slot.fresh = process, now, False
            self._started += 1
            if process.pid:
                self._living[process.pid] = process
                yield process

    def _start(self, slot: _Slot) -> WorkerProcess:
        if not slot.fresh and self._forks.ready:
            return self._forks.ask(self._started, slot.options)
        return WorkerProcess(self._started, fresh_interpreter(self._program, slot.options))

    def _failed(self, slot: _Slot, problem: object) -> None:
        slot.deaths = max(2, slot.deaths + 1)  # an immediate second try would fail too
        slot.pause(self._clock())
        logger.error("a worker process cannot be started, and will be tried again: %s", problem)

    def forked(self) -> Iterator[WorkerProcess]:
        """Yield the processes that the template has forked since the last call, and that run by now."""
        for process in self._forks.born():
            self._living[process.pid] = process
            yield process
        for process in self._forks.failed():
            self._free(process)
        if self._forks.gives_none:
            self._forks.gives_none = False
            for slot in self._slots:
                slot.fresh = slot.fresh or slot.process is None
        if all(slot.done for slot in self._slots) and not self._forks.awaited:
            self._forks.end()

    def _free(self, process: WorkerProcess) -> None:
        """Let a fresh interpreter take the place of a process that was not forked."""
        process.forget()
        slot = self._slot_of(process)
        if slot is not None:
            slot.process, slot.fresh = None, True

    def template_exited(self, pid: int) -> bool:
        """Collect the template, if it is the process that has exited."""
        return self._forks.template_exited(pid)

    def end_template(self) -> None:
        """End the template, whatever it does: the next process is forked from a new one, which imports the code of then."""
        self._forks.end()

    def next_start(self) -> float:
        """Return when the next process is to be started, on the monotonic clock."""
        waits = self._forks.keeps_waiting
        return min(
            (
                slot.start_at
                for slot in self._slots
                if slot.process is None and not slot.done and (slot.fresh or not waits)
            ),
            default=float("inf"),
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
        if process.hello is None and not process.was_forked:
            self.failed_starts += 1
        self._forks.ended(process)
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
