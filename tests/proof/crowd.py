"""Many at once: real processes and threads that start together, count together, and stop when one of them fails."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from multiprocessing.queues import SimpleQueue
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Barrier, Event
from typing import Any, NamedTuple

__all__ = ["Common", "Tell", "in_processes", "in_threads"]

Tell = Callable[[int], None]  # is told now and then how far the crowd has come

_TELL_EVERY = 5.0
_PATIENCE = 60.0

# A test's process has threads and must not be forked; a server that has imported everything may be, and quickly.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__, "onward.backends.sqlite", "onward.testing.contract.builders"])


class Common(NamedTuple):
    """What the members of a crowd share."""

    everybody: Barrier
    stop: Event  # a process failed: the others need not go on
    done: Synchronized[int]
    errors: SimpleQueue[str]

    def add(self, number: int = 1) -> None:
        with self.done.get_lock():
            self.done.value += number

    def meet(self) -> None:
        """Wait until everybody is here."""
        self.everybody.wait(_PATIENCE)

    def attempt(self, act: Callable[..., None], *arguments: Any) -> None:
        """Do it, and note what goes wrong."""
        try:
            act(*arguments, self)
        except BaseException as error:  # noqa: BLE001  whatever it is, it belongs into the ledger
            self.stop.set()
            self.everybody.abort()
            self.errors.put(f"{type(error).__name__}: {error}"[:300])

    def attempt_together(self, act: Callable[..., None], *arguments: Any) -> None:
        self.meet()
        self.attempt(act, *arguments)

    def what_went_wrong(self) -> list[str]:
        found = []
        while not self.errors.empty():
            found.append(self.errors.get())
        return found


def in_processes(count: int, act: Callable[..., None], *arguments: Any, tell: Tell) -> list[str]:
    """Run ``act(number, *arguments, common)`` in so many processes; gives what went wrong."""
    common = _common(count)
    crowd = [
        _context.Process(target=_as_a_process, args=(common, act, number, *arguments), daemon=True)
        for number in range(count)
    ]
    for process in crowd:
        process.start()
    for process in crowd:
        process.join(_TELL_EVERY)
        while process.exitcode is None:
            tell(common.done.value)
            process.join(_TELL_EVERY)
    died = [f"a process ended with {process.exitcode}" for process in crowd if process.exitcode]
    return common.what_went_wrong() + died


def in_threads(count: int, act: Callable[..., None], *arguments: Any, tell: Tell) -> list[str]:
    """The same in threads of this process."""
    common = _common(count)
    with ThreadPoolExecutor(count) as pool:
        crowd = [pool.submit(common.attempt_together, act, number, *arguments) for number in range(count)]
        while wait(crowd, _TELL_EVERY).not_done:
            tell(common.done.value)
    return common.what_went_wrong()


def _as_a_process(common: Common, act: Callable[..., None], *arguments: Any) -> None:
    logging.getLogger("onward").setLevel(logging.ERROR)  # what it warns of, the first process has said
    common.attempt_together(act, *arguments)


def _common(members: int) -> Common:
    return Common(_context.Barrier(members), _context.Event(), _context.Value("q", 0), _context.SimpleQueue())
