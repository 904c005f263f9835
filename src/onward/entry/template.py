"""``python -m onward.entry.template``: a process that has imported the application, and forks isolated processes from it.

It runs no job, opens no connection and starts no thread.  So a fork of it is like a fresh interpreter after its import,
except for what the import has left behind: threads, which a fork does not have while their locks stay locked, and open
sockets and files that two processes must not share.  If there is any, the template says so, and must not be forked.

A forked process leaves `Forks.serve` with its channel, and goes on as a fresh one does (`onward.entry.isolated`).  It dies
with the template, and the template with its worker.  The other end is `onward.worker.template`.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys
from contextlib import suppress
from typing import NamedTuple

from onward.base.packets import receive, send, shortened
from onward.base.process_end import kill_group
from onward.entry.child import leave_signals_to_others, load_application, prepare_process
from onward.entry.fork_safety import begin_anew, open_files, prepare_to_fork, why_not_fork
from onward.entry.isolated import import_problem, run_isolated
from onward.supervisor.subreaper import end_with_parent, name_process
from onward.worker.template_messages import DECODE, CannotFork, Forked, ForkEnded, NotPreloaded, Preloaded

__all__ = ["Forks", "main"]


def main(options_json: str, requests_fd: str) -> None:
    """Import the application, then fork a process whenever the worker asks for one."""
    requests, options = prepare_process(requests_fd, options_json)
    name_process("onward-template")
    open_before = open_files()
    try:
        app = load_application(options)
        leave_signals_to_others()  # even if the application has set handlers
    except BaseException as error:  # noqa: BLE001  whatever an application does while it is imported
        send(requests, Preloaded(shortened(import_problem(error))))
        return
    reason = why_not_fork(open_before)
    if reason is not None:
        send(requests, NotPreloaded(shortened(reason)))
        return
    prepare_to_fork()
    send(requests, Preloaded())
    channel = Forks(requests).serve()
    name_process("onward-isolated")
    begin_anew()
    run_isolated(app, channel)


class Forks:
    """Forks processes for the worker, collects them, and tells their exit codes."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._selector = selectors.PollSelector()  # no file of its own that a fork would share
        self._selector.register(requests, selectors.EVENT_READ)
        self._forked: dict[int, _Fork] = {}  # by pidfd

    def serve(self) -> socket.socket:
        """Fork until the worker is gone, and exit.  Returns in each forked process, with its channel."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._requests:
                    self._collect(self._forked.pop(key.fd))
                elif (channel := self._fork()) is not None:
                    return channel

    def _fork(self) -> socket.socket | None:
        message, files = receive(self._requests, DECODE)
        if message is None:
            os._exit(0)  # without the application's own code at exit, as isolated processes do
        channel, control = (socket.socket(fileno=file) for file in files)
        template = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            channel.close()
            self._refuse(control, error)
            return None
        if pid == 0:
            os.setpgid(0, 0)
            end_with_parent()
            if os.getppid() != template:  # it died before this process asked to die with it
                os._exit(0)
            control.close()
            self._leave()
            return channel
        channel.close()
        try:
            fork = _Fork(pid, os.pidfd_open(pid), control)
        except OSError as error:  # this process has too many open files
            kill_group(pid)
            os.waitpid(pid, 0)
            self._refuse(control, error)
            return None
        self._forked[fork.pidfd] = fork
        self._selector.register(fork.pidfd, selectors.EVENT_READ)
        with suppress(OSError):  # the worker is gone
            send(control, Forked(pid), (fork.pidfd,))
        return None

    def _refuse(self, control: socket.socket, error: OSError) -> None:
        with control, suppress(OSError):  # the worker is gone
            send(control, CannotFork(str(error)))

    def _collect(self, fork: _Fork) -> None:
        """Collect a process that has ended: until then no other process gets its number."""
        self._selector.unregister(fork.pidfd)
        kill_group(fork.pid)
        try:
            code = os.waitstatus_to_exitcode(os.waitpid(fork.pid, 0)[1])
        except ChildProcessError:  # the application ignores SIGCHLD, so the system does not tell
            code = 0
        with suppress(OSError):  # the worker is gone
            send(fork.control, ForkEnded(code))
        fork.close()

    def _leave(self) -> None:
        """Close all that belongs to the template, in a forked process."""
        self._selector.close()
        self._requests.close()
        for fork in self._forked.values():
            fork.close()


class _Fork(NamedTuple):
    """A forked process, and where its end is told."""

    pid: int
    pidfd: int
    control: socket.socket

    def close(self) -> None:
        os.close(self.pidfd)
        self.control.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
