"""The worker processes that the template was asked for, until they run or it is known that they will not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from onward.base.logs import get_logger
from onward.supervisor.messages import BEGIN
from onward.supervisor.options import ProcessOptions
from onward.supervisor.process import AwaitedFork, Ends, StartedProcess, WorkerProcess
from onward.supervisor.template import WorkerTemplate
from onward.supervisor.template_messages import CannotImport, ForkWorker, MustNotFork, WorkerForked, WorkerNotForked

__all__ = ["RequestRefused", "WorkerForks"]

logger = get_logger("onward.supervisor")

_ANSWERS_WITHIN = 10.0  # seconds; it takes milliseconds
_MOST_FAILED = 2  # forked processes, in a row, that end before they have started


class RequestRefused(Exception):
    """The template takes no request: it ends, or stands still."""


class WorkerForks:
    """Asks the template for processes.  It stops when forked processes do not start."""

    def __init__(self, template: WorkerTemplate | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._template = template
        self._clock = clock
        self._asked_at = 0.0
        self._may_become = False  # whether the template is to become a worker process itself
        self._awaited: dict[int, WorkerProcess] = {}  # by number
        self._failed: list[WorkerProcess] = []
        self._failed_in_a_row = 0
        self.gives_none = False  # the template has ended, or cannot import the application

    @property
    def wanted(self) -> bool:
        """Whether processes are to be forked."""
        return self._template is not None and (self._template.usable or self._may_become)

    @property
    def ready(self) -> bool:
        """Whether a process can be had from the template now."""
        return self._template is not None and (self._template.ready or self._may_become)

    @property
    def keeps_waiting(self) -> bool:
        """Whether the next process has to wait for the template."""
        return self.wanted and not self.ready and bool(self.template_pid)

    @property
    def awaited(self) -> bool:
        """Whether processes were asked for that do not run yet."""
        return bool(self._awaited or self._failed)

    @property
    def template_pid(self) -> int:
        return 0 if self._template is None else self._template.pid

    def prepare(self) -> None:
        """Start the template where there is none."""
        template = self._template
        if template is None or not template.usable or template.pid:
            return
        try:
            template.start()
        except OSError as error:
            self.gives_none = True
            logger.warning("the template of worker processes cannot be started: %s", error)

    def ask(self, number: int, options: ProcessOptions) -> WorkerProcess:
        """Ask for a process, which has no pid yet; or let the template become it.

        Raises `RequestRefused`, or `OSError` if the system has no file left.
        """
        template = self._template
        assert template is not None

        def start(ends: Ends) -> StartedProcess:
            if not template.ask(ForkWorker(number, options), ends.theirs):
                raise RequestRefused
            if not becomes:
                return AwaitedFork(ends.ours)
            ends.ours.send(BEGIN)
            return template.released()

        becomes, self._may_become = self._may_become, False
        process = WorkerProcess(number, start)
        if not becomes:
            self._awaited[number] = process
            self._asked_at = self._clock()
        return process

    def born(self) -> Iterator[WorkerProcess]:
        """Yield the processes that were forked since the last call, and let them run."""
        template = self._template
        for answer in () if template is None else template.answers():
            assert template is not None
            match answer:
                case WorkerForked(number, pid):
                    process = self._awaited.pop(number)
                    assert isinstance(process.handle, AwaitedFork)
                    if process.handle.begin(pid):
                        yield process
                    else:
                        self._failed.append(process)
                        self._count_failure()
                case WorkerNotForked(number, reason, unsafe):
                    self._failed.append(self._awaited.pop(number))
                    if unsafe:
                        self._refuse(reason)
                case MustNotFork(reason):
                    template.refuse(reason)
                    self._may_become = True
                case CannotImport():
                    self._give_none()
                    template.kill()

        if self._awaited and self._clock() - self._asked_at > _ANSWERS_WITHIN:
            logger.warning("the template of worker processes did not answer for %g s: it is killed", _ANSWERS_WITHIN)
            self.end()

    def failed(self) -> Iterator[WorkerProcess]:
        """Yield the processes that will not be forked."""
        failed, self._failed = self._failed, []
        yield from failed

    def ended(self, process: WorkerProcess) -> None:
        """Count forked processes that end before they have started: the import may have left what does not bear a fork."""
        if process.hello is not None:
            self._failed_in_a_row = 0
        elif process.was_forked and process.killed is None:
            self._count_failure()

    def template_exited(self, pid: int) -> bool:
        """Collect the template, if it is the process that has exited."""
        if self._template is None or pid != self._template.pid:
            return False
        if self._template.collect():
            self._give_none()
        self._may_become = False
        self._give_up_awaited()
        return True

    def end(self) -> None:
        """End the template, whatever it does.  The next need starts another one."""
        self._may_become = False
        if self._template is not None:
            self._template.kill()
        self._give_up_awaited()

    def _give_none(self) -> None:
        self.gives_none, self._may_become = True, False

    def _give_up_awaited(self) -> None:
        self._failed += self._awaited.values()
        self._awaited.clear()

    def _count_failure(self) -> None:
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= _MOST_FAILED:
            self._refuse(f"{_MOST_FAILED} forked ones ended before they had started")

    def _refuse(self, reason: str) -> None:
        if self._template is not None:
            self._template.refuse(reason)
        self.end()
