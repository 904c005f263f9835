"""One isolated process seen from its worker: its messages, its end, and how a fresh interpreter is started."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from onward.base.ipc import IpcChannel, IpcMessage, MalformedMessage
from onward.base.lazy import subprocess
from onward.base.process_end import describe_end, has_ended, kill_group
from onward.job.lease import Lease
from onward.telemetry.numbers import Pair
from onward.worker.inflight import Work
from onward.worker.isolated_messages import (
    AskOwner,
    AttemptEnded,
    FromProcess,
    HandlerBegins,
    HandlerCounted,
    HandlerProgress,
    Imported,
    LeaseIsLost,
    NoteAnswered,
    OwnerIs,
    RunLease,
    WriteNote,
)

__all__ = ["FreshInterpreter", "IsolatedProcess", "ProcessEnded", "ProcessHandle"]

_EXITS_WITHIN = 1.0  # seconds
_GRACE = 0.5  # seconds in which an async handler can still be cancelled by its own event loop

_decoder: msgspec.msgpack.Decoder[IpcMessage] = msgspec.msgpack.Decoder(FromProcess)


class ProcessEnded(Exception):
    """The process has ended; the text says how."""


class ProcessHandle(Protocol):
    """A process that can be killed and must be collected, however it was started."""

    @property
    def pid(self) -> int: ...

    @property
    def has_ended(self) -> bool: ...

    def kill(self) -> None:
        """Kill the process, if it was not collected yet."""

    def collect(self) -> str:
        """Kill what is left of the process group of a process that has ended, and return in words how it ended."""


class FreshInterpreter:
    """A process that imports the application by itself (`onward.entry.isolated`)."""

    def __init__(self, program: Sequence[str], channel: socket.socket) -> None:
        self._popen = subprocess.Popen(
            [*program, str(channel.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=(channel.fileno(),),
            process_group=0,
        )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def has_ended(self) -> bool:
        return has_ended(self.pid)

    def kill(self) -> None:
        if self._popen.returncode is None:
            kill_group(self.pid)

    def collect(self) -> str:
        kill_group(self.pid)  # until it is waited for, no other process gets its number
        return describe_end(self._popen.wait())


class IsolatedProcess:
    """The messages to and from one process, which runs one job at a time."""

    def __init__(self, start: Callable[[socket.socket], ProcessHandle]) -> None:
        """Start the process, which gets the other end of the channel.  May raise what ``start`` raises."""
        ours, theirs = socket.socketpair()
        self._channel = IpcChannel(ours, _decoder)
        try:
            with theirs:
                self._handle = start(theirs)
        except BaseException:
            self._channel.close()
            raise
        self._imported = False
        self.begun = False  # whether the handler of the last job was called
        self._heard: list[IpcMessage] = []
        self._ending = threading.Lock()
        self.killed_because: str | None = None

    @property
    def pid(self) -> int:
        return self._handle.pid

    @property
    def has_ended(self) -> bool:
        return self._handle.has_ended

    def wait_for_message(self) -> None:
        """Wait until it has sent its first message, or has ended."""
        self._wait(None)

    def wait_until_imported(self) -> str | None:
        """Wait for the import of the application.  Returns the problem, if there was one."""
        if self._imported:
            return None
        message = self._next(None)
        assert isinstance(message, Imported)
        self._imported = message.problem is None
        if message.problem is not None:
            self.end()
        return message.problem

    def run(
        self,
        work: Work,
        report: Callable[[Lease, float, str | None], bool],
        answer: Callable[[Lease, WriteNote | AskOwner], NoteAnswered | OwnerIs],
        counted: Callable[[Mapping[tuple[str, Pair], int]], None],
    ) -> AttemptEnded:
        """Send the lease and wait for the end of the attempt, at most as long as the job may take."""
        timeout = work.ready.terms.timeout
        deadline = None if timeout is None else time.monotonic() + timeout + _GRACE
        self.begun = False
        self._channel.send(RunLease(msgspec.structs.replace(work.lease, receipt=None)))
        while True:
            match self._next(deadline):
                case None:
                    self.kill("timeout")
                    deadline = None
                case HandlerBegins():
                    self.begun = True
                case HandlerProgress(fraction, note):
                    if not report(work.lease, fraction, note):
                        self.lease_lost()
                case HandlerCounted(counts):
                    counted({(name, (queue, job)): count for name, queue, job, count in counts})
                case WriteNote() | AskOwner() as asked:
                    self._channel.send(answer(work.lease, asked))
                case AttemptEnded() as ran:
                    return ran

    def kill(self, because: str) -> None:
        """Kill the process.  From any thread: the thread that waits for its messages finds it dead."""
        with self._ending:
            if self.killed_because is None:
                self.killed_because = because
                self._handle.kill()

    def lease_lost(self) -> None:
        self._channel.send(LeaseIsLost())

    def end(self) -> str:
        """Close the channel, so that the process exits, and kill what is left of its group.  Returns how it ended."""
        self._channel.close()
        deadline = time.monotonic() + _EXITS_WITHIN
        while not self.has_ended:
            if time.monotonic() > deadline:
                self.kill("it did not exit")
            time.sleep(0.002)
        with self._ending:
            return self._handle.collect()

    def _next(self, deadline: float | None) -> IpcMessage | None:
        """Return the next message; None if the deadline comes first."""
        while not self._heard:
            try:
                arrived = self._channel.arrived()
            except MalformedMessage as error:
                self.kill("it sent a malformed message")
                self.end()
                raise ProcessEnded(f"sent a malformed message: {error}") from None
            if arrived is None:
                raise ProcessEnded(self.end())
            self._heard += arrived
            if not arrived and not self._wait(deadline):
                return None
        return self._heard.pop(0)

    def _wait(self, deadline: float | None) -> bool:
        """Wait for a message; False if the deadline comes first."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            return bool(selector.select(None if deadline is None else max(0.0, deadline - time.monotonic())))
