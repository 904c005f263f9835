"""One connection.  The jobs that it reserved belong to it, and the server puts them back when it breaks.

When an answer does not come in time, the connection is closed: a later command would take that answer for its own.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from onward.backends.beanstalk import pipeline
from onward.backends.beanstalk.driver import greenstalk
from onward.backends.beanstalk.url import Address
from onward.backends.unreachable import unreachable_error
from onward.base.clock import time_left
from onward.errors import BackendRefused, BackendUnavailable

__all__ = ["Connection", "Put"]

_NOT_FOUND = greenstalk.NotFoundError


class Put(NamedTuple):
    """A job as the server takes it."""

    tube: str
    body: bytes
    priority: int
    delay: int
    ttr: int

    @property
    def command(self) -> bytes:
        return b"put %d %d %d %d\r\n%b" % (self.priority, self.delay, self.ttr, len(self.body), self.body)


class Connection:
    """The commands that the backend uses.  Those that may find no job say so by their answer."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.lock = threading.RLock()
        self.broken = False
        self._using = self._watching = "default"
        try:
            self._socket = socket.create_connection((address.host, address.port), time_left(address.timeout))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._client = greenstalk.Client(self._socket, encoding=None)
        except OSError as error:
            raise unreachable_error(address.place, error) from error

    def put(self, tube: str, body: bytes, *, priority: int, delay: int, ttr: int) -> int:
        numbers: list[int] = []
        self.put_all([Put(tube, body, priority, delay, ttr)], numbers)
        return numbers[0]

    def put_all(self, puts: Sequence[Put], stored: list[int]) -> None:
        """Put jobs, and fill in the numbers of those that the server has stored, even if others fail."""
        commands: list[bytes] = []
        with self._talking():
            for put in puts:
                if put.tube != self._using:
                    commands.append(b"use %b" % put.tube.encode("ascii"))
                    self._using = put.tube
                commands.append(put.command)
            failure: Exception | None = None
            for answer in pipeline.ask(self._client, commands):
                if answer.word == b"INSERTED":
                    stored.append(int(answer.values[0]))
                elif answer.word != b"USING":
                    failure = failure or answer.error
            if failure is not None:
                raise self._unwritten(failure) if isinstance(failure, greenstalk.BuriedError) else failure

    def _unwritten(self, error: Exception) -> BackendUnavailable:
        # The server could not write its log.  The job is left alone: the server has it ready and buried at the same time,
        # and deleting it leaves a dangling entry there (1.12).
        unavailable = BackendUnavailable(
            f"{self.address.place} could not write the job to its log, and writes nothing from now on: the job may run, but "
            f"is lost if the server ends; look at its disk, then restart it"
        )
        unavailable.__cause__ = error
        return unavailable

    def reserve(self, tube: str, limit: int) -> tuple[list[tuple[int, bytes]], bool]:
        """Reserve the next ready jobs of a queue; also return whether a reserved job must be renewed before that.

        This never blocks: other threads need the connection.
        """
        with self._talking():
            if tube != self._watching:
                self._client.watch(tube)
                self._client.ignore(self._watching)
                self._watching = tube
            found: list[tuple[int, bytes]] = []
            is_late = False
            failure: Exception | None = None
            for answer in pipeline.ask(self._client, [b"reserve-with-timeout 0"] * limit):
                if answer.word == b"RESERVED":
                    found.append((int(answer.values[0]), answer.body))
                elif answer.word == b"DEADLINE_SOON":
                    is_late = True
                elif answer.word != b"TIMED_OUT":
                    failure = failure or answer.error
            if failure is not None:
                raise failure
            return found, is_late

    def reserve_one(self, job: int) -> bool:
        """Reserve a waiting job by its number, whatever its state."""
        return self._found(lambda: self._client.reserve_job(job))

    def touch(self, job: int) -> bool:
        return self.touch_all([job])[0]

    def touch_all(self, jobs: Sequence[int]) -> list[bool]:
        return self._found_all(b"touch", jobs, b"TOUCHED", [])

    def delete(self, job: int) -> bool:
        return self.delete_all([job])[0]

    def delete_all(self, jobs: Sequence[int], found: list[bool] | None = None) -> list[bool]:
        """Delete jobs.  Fills in ``found`` as far as the server has answered, even if the connection then breaks."""
        return self._found_all(b"delete", jobs, b"DELETED", [] if found is None else found)

    def release(self, job: int, priority: int) -> bool:
        return self._found(lambda: self._client.release(_named(job), priority, 0))

    def bury(self, job: int, priority: int) -> bool:
        return self._found(lambda: self._client.bury(_named(job), priority))

    def peek(self, job: int) -> bytes | None:
        with self._talking(), suppress(_NOT_FOUND):
            return self._client.peek(job).body
        return None

    def has_ready(self, tube: str) -> bool:
        with self._talking():
            if tube != self._using:
                self._client.use(tube)
                self._using = tube
            try:
                self._client.peek_ready()
            except _NOT_FOUND:
                return False
            return True

    def stats(self) -> Mapping[str, Any]:
        with self._talking():
            return dict(self._client.stats())

    def counters(self, jobs: Sequence[int]) -> list[Mapping[bytes, bytes] | None]:
        """Return the server's counters of each job; None where there is no such job."""
        counted: list[Mapping[bytes, bytes] | None] = []
        with self._talking():
            failure: Exception | None = None
            for answer in pipeline.ask(self._client, [b"stats-job %d" % job for job in jobs]):
                if answer.word == b"OK":
                    counted.append(dict(line.split(b": ", 1) for line in answer.body.splitlines() if b": " in line))
                elif answer.word == b"NOT_FOUND":
                    counted.append(None)
                else:
                    failure = failure or answer.error
            if failure is not None:
                raise failure
        return counted

    def stats_tube(self, tube: str) -> Mapping[str, Any] | None:
        with self._talking(), suppress(_NOT_FOUND):
            return dict(self._client.stats_tube(tube))
        return None

    def tubes(self) -> list[str]:
        with self._talking():
            return self._client.tubes()

    def stale(self) -> bool:
        """Return whether the server has closed the connection while no command was under way."""
        if self.broken:
            return True
        if not self.lock.acquire(blocking=False):  # another thread uses it: readable bytes are its answer
            return False
        try:
            look = select.poll()
            look.register(self._socket, select.POLLIN)
            return bool(look.poll(0))  # no command was sent, so readable means closed
        except (OSError, ValueError):  # another thread has just closed it
            return True
        finally:
            self.lock.release()

    def close(self) -> None:
        self.broken = True
        with suppress(OSError):
            self._client.close()

    def forget(self) -> None:
        """Close this process's copy of the socket, in a fork; the parent's goes on."""
        self.broken = True
        with suppress(OSError):
            os.close(self._socket.detach())

    def _found(self, command: Any) -> bool:
        with self._talking():
            try:
                command()
            except _NOT_FOUND:
                return False
            return True

    def _found_all(self, verb: bytes, jobs: Sequence[int], yes: bytes, found: list[bool]) -> list[bool]:
        with self._talking():
            failure: Exception | None = None
            for answer in pipeline.ask(self._client, [b"%b %d" % (verb, job) for job in jobs]):
                found.append(answer.word == yes)
                if answer.word not in (yes, b"NOT_FOUND"):
                    failure = failure or answer.error
            if failure is not None:
                raise failure
        return found

    @contextmanager
    def _talking(self) -> Iterator[None]:
        with self.lock:
            if self.broken:
                raise BackendUnavailable(f"the connection to {self.address.place} is closed")
            try:
                self._socket.settimeout(time_left(self.address.timeout))
                yield
            except (_NOT_FOUND, BackendUnavailable):
                raise
            except greenstalk.JobTooBigError as error:
                raise BackendRefused(
                    "beanstalkd refuses a job of this size: start it with a larger -z, or store the data elsewhere"
                ) from error
            except (greenstalk.DrainingError, greenstalk.OutOfMemoryError, greenstalk.InternalError) as error:
                raise BackendUnavailable(f"{self.address.place} says {type(error).__name__}") from error
            except BaseException as error:
                # No answer, half an answer, or the thread was interrupted before it came.
                self.close()
                if isinstance(error, Exception):
                    raise BackendUnavailable(f"{self.address.place} did not answer: {error!r}") from error
                raise


def _named(job: int) -> Any:
    return greenstalk.Job(job, b"")
