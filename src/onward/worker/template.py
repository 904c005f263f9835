"""The template of isolated processes, seen from the worker: one process that has imported the application, to be forked.

A fresh interpreter takes half a second of processor time and more to import an application; after a crash every job that had
begun waits for one.  A fork of the template takes a few milliseconds.  The template starts when a job first needs it, and
ends with its worker.  Its other end, `onward.entry.template`, says when it must not be forked: then processes are fresh
interpreters, as on systems without what this needs.

A forked process is a child of the template, which collects it and tells its exit code.  The worker kills it through a file
that refers to this process alone (a pidfd), so it needs neither the template nor a number that another process may have by
now.  The recorder has the template's pid: the supervisor of a worker that died ends the template first, and thereby becomes
the parent of the forked processes, whose end it must see before their leases are given back.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress

from onward.base.lazy import subprocess
from onward.base.logs import get_logger
from onward.base.packets import receive, send
from onward.base.process_end import describe_end, kill_group
from onward.worker.run_recorder import RunRecorder
from onward.worker.template_messages import DECODE, CannotFork, Fork, Forked, ForkEnded, NotPreloaded, Preloaded

__all__ = ["CannotPreload", "ForkedProcess", "NotForked", "Template"]

logger = get_logger("onward.worker")

_TRIES = 3  # templates that may end, one after the other, before one job is put aside


class CannotPreload(Exception):
    """The application cannot be imported now; the text says why."""


class NotForked(Exception):
    """The template must not be forked: the process must be a fresh interpreter."""


class _TemplateEnded(Exception):
    """The template has ended before it answered."""


class Template:
    """Starts the template at the first need, and again if it has ended."""

    def __init__(self, program: Sequence[str], recorder: RunRecorder | None) -> None:
        self._program = program
        self._recorder = recorder
        self._starting = threading.Lock()  # held during an import, which may hang: `close` does not wait for it
        self._process: _TemplateProcess | None = None  # it imports, or can be forked
        self._closed = False
        self.usable = True  # whether isolated processes are to be forked

    def fork(self, channel: socket.socket) -> ForkedProcess:
        """Fork a process that serves this end of a channel.

        Raises `NotForked`, `CannotPreload`, or `OSError` if the system has no process left.
        """
        for _ in range(_TRIES):
            template = self._running()
            try:
                return template.fork(channel)
            except _TemplateEnded:
                self._replace(template)
        raise CannotPreload(f"its template process ended {_TRIES} times before it could be forked")

    def close(self) -> None:
        """End the template, whatever it does."""
        self._closed = True
        process = self._process
        if process is not None:
            process.end()

    def _running(self) -> _TemplateProcess:
        with self._starting:
            if not self.usable:  # another thread has waited for the import
                raise NotForked
            if self._process is not None:
                return self._process
            self._process = process = _TemplateProcess(self._program)
            self._record(process.pid)
            if self._closed:
                process.end()
            match process.wait_until_imported():
                case Preloaded(None):
                    return process
                case Preloaded(problem):  # a later job tries another import
                    self._end(process)
                    raise CannotPreload(problem)
                case NotPreloaded(reason):
                    self._end(process)
                    self.usable = False
                    logger.info("isolated processes are fresh interpreters, and not forked: %s", reason)
                    raise NotForked
                case _:
                    raise CannotPreload(f"its template process {self._end(process)} before the job began")

    def _replace(self, ended: _TemplateProcess) -> None:
        """Let the next need start another template."""
        with self._starting:
            if self._process is ended:
                logger.warning("the template of isolated processes %s: another one is started", self._end(ended))

    def _end(self, process: _TemplateProcess) -> str:
        how = process.end()
        self._process = None
        self._record(0)
        return how

    def _record(self, pid: int) -> None:
        if self._recorder is not None:
            self._recorder.template(pid)


class _TemplateProcess:
    """One template: its socket and its pid."""

    def __init__(self, program: Sequence[str]) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._popen = subprocess.Popen(
                    [*program, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    process_group=0,
                )
        except OSError:
            self._requests.close()
            raise
        self._ending = threading.Lock()
        self.pid = self._popen.pid

    def wait_until_imported(self) -> Preloaded | NotPreloaded | None:
        """Wait for the import of the application.  None: the template has ended."""
        message, _ = receive(self._requests, DECODE)
        return message if isinstance(message, Preloaded | NotPreloaded) else None

    def fork(self, channel: socket.socket) -> ForkedProcess:
        """Ask for a process.  Any thread may, at any time: each request has its own socket for the answer."""
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                send(self._requests, Fork(), (channel.fileno(), theirs.fileno()))
        except OSError:
            control.close()
            raise _TemplateEnded from None
        message, files = receive(control, DECODE)
        if isinstance(message, Forked):
            return ForkedProcess(message.pid, files[0], control)
        control.close()
        if isinstance(message, CannotFork):
            raise OSError(message.problem)
        raise _TemplateEnded

    def end(self) -> str:
        """Kill the template, and with it what it has forked.  Returns how it ended, also if it had before."""
        with self._ending:
            if self._popen.returncode is None:
                kill_group(self.pid)
                self._popen.wait()
                self._requests.close()
            return describe_end(self._popen.returncode)


class ForkedProcess:
    """A process that was forked from the template.  `onward.worker.isolated_process` has the messages."""

    def __init__(self, pid: int, pidfd: int, control: socket.socket) -> None:
        self.pid = pid
        self._pidfd: int | None = pidfd
        self._control = control

    @property
    def has_ended(self) -> bool:
        if self._pidfd is None:
            return True
        ended = select.poll()
        ended.register(self._pidfd, select.POLLIN)
        return bool(ended.poll(0))

    def kill(self) -> None:
        if self._pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def collect(self) -> str:
        """Wait for the template to tell how the process ended, and to kill what is left of its group."""
        message, _ = receive(self._control, DECODE)
        self._control.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        if isinstance(message, ForkEnded):
            return describe_end(message.code)
        kill_group(self.pid)  # programs that its handler has started: no process has had time to get this number
        return "ended with the template process that it was forked from"
