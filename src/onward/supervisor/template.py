"""The template of worker processes, seen from the supervisor: one process that has imported the application, to be forked.

Worker processes that are forked share the memory of the import, and start in milliseconds.  No process depends on the
template: whatever is wrong with it, the supervisor starts a fresh interpreter instead, and that one reports what there is to
report.

The parent of a forked process has ended when the template tells the pid, so the process is a child of the supervisor, as a
fresh interpreter is: the supervisor learns how it ended, with or without the template.  It waits until the supervisor knows
its pid (`onward.supervisor.process.AwaitedFork`), so no process that the supervisor does not know ever opens a session.

The other end is `onward.entry.worker_template`.
"""

from __future__ import annotations

import selectors
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from onward.base.ipc import IpcMessage
from onward.base.logs import get_logger
from onward.base.packets import receive, send
from onward.base.process_end import describe_end, kill_group
from onward.supervisor.options import ProcessOptions
from onward.supervisor.template_messages import DECODE, ForkWorker, TemplateReady

__all__ = ["WorkerTemplate"]

logger = get_logger("onward.supervisor")


class WorkerTemplate:
    """Starts the template when a worker process is first needed, and again after it has ended."""

    def __init__(self, program: Sequence[str], options: ProcessOptions, selector: selectors.BaseSelector) -> None:
        self._command = [*program, msgspec.json.encode(options).decode()]
        self._selector = selector
        self._popen: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self.usable = True  # whether worker processes are to be forked
        self.ready = False  # whether it can be forked now
        self._killed = False
        self._said = False  # whether it has said anything: what became of the import

    @property
    def pid(self) -> int:
        """The pid of the template; 0: there is none, or it has not been collected yet."""
        return 0 if self._popen is None else self._popen.pid

    def start(self) -> None:
        """Start the template, which begins to import the application.  Raises `OSError`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._popen = subprocess.Popen(  # noqa: S603  our own interpreter
                    [*self._command, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    process_group=0,
                )
        except OSError:
            ours.close()
            raise
        ours.setblocking(False)  # noqa: FBT003  a template that stands still reads nothing, and the supervisor never waits for it
        self._requests = ours
        self._selector.register(ours, selectors.EVENT_READ)

    def ask(self, request: ForkWorker, files: Sequence[int]) -> bool:
        """Ask for a process; False if the template takes no request."""
        with suppress(OSError):
            if self._requests is not None:
                send(self._requests, request, files)
                return True
        return False

    def answers(self) -> Iterator[IpcMessage]:
        """Yield what the template has said since the last call."""
        while self._requests is not None:
            try:
                answer, _ = receive(self._requests, DECODE)
            except BlockingIOError:
                return
            if answer is None:
                self.close()
                return
            self._said = True
            self.ready = self.ready or isinstance(answer, TemplateReady)
            yield answer

    def refuse(self, reason: str) -> None:
        """Fork no process any more."""
        if self.usable:
            self.usable = False
            logger.info("worker processes are fresh interpreters, and not forked: %s", reason)

    def kill(self) -> None:
        """End the template, whatever it does.  What it has forked lives on."""
        self.close()
        if self._popen is not None:
            self._killed = True
            kill_group(self._popen.pid)

    def close(self) -> None:
        """Ask it nothing any more: it exits when it notices."""
        if self._requests is not None:
            self._selector.unregister(self._requests)
            self._requests.close()
        self._requests, self.ready = None, False

    def collect(self) -> bool:
        """Wait for the template, which has ended.  Returns whether it ended by itself and said nothing of its import."""
        assert self._popen is not None
        how = describe_end(self._popen.wait())
        if not self._killed:
            logger.warning("the template of worker processes %s: another one is started when it is needed", how)
        self.close()
        failed = not (self._said or self._killed)
        self._popen, self._killed, self._said = None, False, False
        return failed

    def released(self) -> subprocess.Popen[bytes]:
        """Return the process, which has become a worker process."""
        assert self._popen is not None
        popen, self._popen, self._said = self._popen, None, False
        self.close()
        return popen
