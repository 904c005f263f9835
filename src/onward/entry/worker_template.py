"""``python -m onward.entry.worker_template``: a process that has imported the application, to fork worker processes from it.

It runs no job, opens no connection and starts no thread.  If the import has left behind what a fork must not inherit
(`onward.entry.fork_safety`), it says so and becomes a worker process itself, so that the import was not in vain.

**A process is forked twice.**  The template forks a relay, the relay forks the worker process, says its pid and ends.  So
the worker process is an orphan, which the system gives to the supervisor (`onward.supervisor.subreaper`): that learns how it
ended, and it does not die with the template.  The relay looks once more for what a fork must not inherit: functions
that the application has registered to be called after a fork may have started threads.

**The worker process waits** until the supervisor knows its pid, and exits if that never happens.  Then it goes on as a fresh
one does (`onward.entry.child`).  The other end is `onward.supervisor.template`.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
from contextlib import suppress
from typing import NamedTuple

from onward.base.packets import receive, send, shortened
from onward.entry.child import leave_signals_to_others, load_application, prepare_process, serve
from onward.entry.fork_safety import begin_anew, open_files, prepare_to_fork, why_not_fork
from onward.supervisor.options import ProcessOptions
from onward.supervisor.subreaper import end_with_parent, name_process
from onward.supervisor.template_messages import (
    DECODE,
    CannotImport,
    ForkWorker,
    MustNotFork,
    TemplateReady,
    WorkerForked,
    WorkerNotForked,
)

__all__ = ["main"]

# What every worker process imports when it begins: imported here, its memory is shared.
_NEEDED = (
    "onward.attempt.first_error",
    "onward.transactions.blocks",
    "onward.transactions.waiting",
    "onward.wiring.engine",
    "onward.wiring.operators",
    "onward.worker.event_loop",
    "onward.worker.inline",
)
_LONGEST_TOLD = 4096  # bytes, which a pipe takes at once


class _Start(NamedTuple):
    """What a worker process is started with."""

    options: ProcessOptions
    channel: socket.socket
    board_fd: int


def main(options_json: str, requests_fd: str) -> int:
    """Import the application, then fork a process whenever the supervisor asks for one."""
    requests, options = prepare_process(requests_fd, options_json)
    name_process("onward-preload")
    open_before = open_files()
    try:
        app = load_application(options)
        for module in _NEEDED:
            importlib.import_module(module)
        leave_signals_to_others()  # even if the application has set handlers
    except BaseException:  # noqa: BLE001  whatever an application does while it is imported
        _tell(requests, CannotImport())
        return 0
    reason = why_not_fork(open_before)
    if reason is None:
        prepare_to_fork()
        _tell(requests, TemplateReady())
        start = _serve(requests)
        begin_anew()
    else:
        _tell(requests, MustNotFork(shortened(reason)))
        start = _requested(requests)[1]
        requests.close()
    name_process("onward-worker")
    _wait_until_known(start.channel)
    return serve(app, start.options, start.channel, start.board_fd)


def _serve(requests: socket.socket) -> _Start:
    """Fork until the supervisor is gone, and exit.  Returns in each worker process."""
    while True:
        number, start = _requested(requests)
        told, tell = os.pipe()
        open_before = open_files()
        answer: WorkerForked | WorkerNotForked
        try:
            relay = os.fork()
        except OSError as error:
            relay, answer = -1, WorkerNotForked(number, str(error), unsafe=False)
        if relay == 0:
            if _forked_again(open_before, tell):
                os.close(told)
                requests.close()
                return start
            os._exit(0)
        os.close(tell)  # or a relay that ends without a word would be waited for
        if relay > 0:
            answer = _answer(number, os.read(told, _LONGEST_TOLD))
            with suppress(ChildProcessError):  # the application ignores SIGCHLD
                os.waitpid(relay, 0)  # from now on the worker process is a child of the supervisor
        os.close(told)
        os.close(start.board_fd)
        start.channel.close()
        _tell(requests, answer)


def _forked_again(open_before: dict[int, str], tell: int) -> bool:
    """Fork the worker process, in the relay.  Returns whether this is the worker process."""
    try:
        reason = why_not_fork(open_before)
        pid = 0 if reason is not None else os.fork()
        if reason is None and pid == 0:
            os.setpgid(0, 0)
            os.close(tell)
            return True
        if reason is None:
            with suppress(OSError):  # it has ended
                os.setpgid(pid, pid)  # or who kills the template's group before it has left it kills it too
        os.write(tell, str(pid).encode() if reason is None else f"!{reason}".encode()[:_LONGEST_TOLD])
    except OSError as error:
        os.write(tell, f"?{error}".encode()[:_LONGEST_TOLD])
    return False


def _answer(number: int, told: bytes) -> WorkerForked | WorkerNotForked:
    if told.isdigit():
        return WorkerForked(number, int(told))
    reason = told[1:].decode(errors="replace") or "a fork of the template ended at once"
    return WorkerNotForked(number, reason, unsafe=told[:1] != b"?")


def _requested(requests: socket.socket) -> tuple[int, _Start]:
    """Wait for a request.  Exits if the supervisor is gone, without the application's own code at exit."""
    message, files = receive(requests, DECODE)
    if not isinstance(message, ForkWorker):
        os._exit(0)
    channel, board_fd = files
    return message.number, _Start(message.options, socket.socket(fileno=channel), board_fd)


def _wait_until_known(channel: socket.socket) -> None:
    """Wait until the supervisor knows the pid of this process; exit if it will never know."""
    try:
        known = channel.recv(1)
    except OSError:
        known = b""
    if not known:
        os._exit(0)
    end_with_parent()  # until it reads messages


def _tell(
    requests: socket.socket, message: TemplateReady | CannotImport | MustNotFork | WorkerForked | WorkerNotForked
) -> None:
    with suppress(OSError):  # the supervisor is gone: the next request will not come
        send(requests, message)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
