"""One HTTP exchange with a checked address: no function here resolves a name twice, follows a redirect or uses a proxy.

    resolve   the name's addresses, once
    connect   to one of them, and for https: a handshake in which the server shows a certificate for the *name*
    exchange  one request, one answer, then the connection is closed

The socket never blocks.  The handler waits in short pauses (`onward.handlers.time_left`), so that one deadline holds for the
whole exchange: a server that sends a byte a minute is as late as one that sends none.
"""

from __future__ import annotations

import errno
import http.client
import io
import os
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, NamedTuple, TypeVar

from onward.handlers.address import Address
from onward.handlers.target import Target
from onward.handlers.time_left import TimeLeft

__all__ = ["HttpAnswer", "Resolver", "connect", "exchange", "resolve", "system_resolver"]

T = TypeVar("T")

Resolver = Callable[[str, int], Iterable[str]]

_HEAD_LIMIT = 64 * 1024  # bytes around the body: the answer's head, interim answers, the lines between chunks


class HttpAnswer(NamedTuple):
    """The answer of a server."""

    status: int
    headers: Mapping[str, str]  # by names in lower case
    body: bytes
    truncated: bool


class HeadTooLong(Exception):
    """The head of an answer is too long."""


def system_resolver(host: str, port: int) -> Iterable[str]:
    """Return the addresses of a name, from the system's resolver."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in answers)


def resolve(target: Target, resolver: Resolver, time_left: TimeLeft) -> Sequence[Address]:
    """Return all addresses of the target's host.  A thread calls the resolver, because that has no deadline."""
    if target.address is not None:
        return [target.address]
    answers: list[Address] = []
    problems: list[Exception] = []
    done = threading.Event()

    def ask() -> None:
        try:
            answers.extend(map(ip_address, resolver(target.host, target.port)))
        except Exception as error:  # noqa: BLE001  raised again below
            problems.append(error)
        done.set()

    threading.Thread(target=ask, name="onward-resolve", daemon=True).start()
    while not done.wait(time_left.nap()):
        pass
    if problems:
        raise problems[0]
    if not answers:
        raise OSError(f"{target.host} has no address")
    return answers


def connect(addresses: Iterable[Address], port: int, time_left: TimeLeft) -> socket.socket:
    """Connect to the first of these addresses that accepts."""
    problem: OSError = OSError("there is no address to connect to")
    for address in addresses:
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            code = _connected(connection, (str(address), port), time_left)
        except BaseException:
            connection.close()
            raise
        if code == 0:
            return connection
        connection.close()
        problem = OSError(code, f"{os.strerror(code)}: {address} port {port}")
    raise problem


def _connected(connection: socket.socket, place: tuple[str, int], time_left: TimeLeft) -> int:
    """Return the system's error number; 0 if there was no error."""
    connection.settimeout(0)
    code = connection.connect_ex(place)
    if code == errno.EINPROGRESS:
        _wait(connection, select.POLLOUT, time_left)
        code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code == 0:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return code


def exchange(
    connection: socket.socket,
    target: Target,
    tls: ssl.SSLContext | None,
    *,
    method: str,
    headers: Mapping[str, str],
    body: bytes | None,
    limit: int,
    time_left: TimeLeft,
) -> HttpAnswer:
    """Send one request and read its answer, of its body at most ``limit`` bytes."""
    stream = _Stream(connection, time_left, limit + _HEAD_LIMIT)
    try:
        if tls is not None:
            stream.encrypt(tls, target.host)
        asking = _Asking(target, stream)
        asking.request(method, target.path, body=body, headers={**headers, "Connection": "close"})
        return _answer(asking.getresponse(), limit)
    finally:
        stream.end()


def _answer(response: http.client.HTTPResponse, limit: int) -> HttpAnswer:
    said = response.read(limit + 1)
    if len(said) <= limit and response.length:
        raise http.client.IncompleteRead(said, response.length)
    return HttpAnswer(
        status=response.status,
        headers={name.lower(): value for name, value in response.getheaders()},
        body=said[:limit],
        truncated=len(said) > limit,
    )


class _Asking(http.client.HTTPConnection):
    """Writes requests and reads answers on an existing connection."""

    def __init__(self, target: Target, stream: Any) -> None:
        super().__init__(target.host, target.port)
        self.default_port = 443 if target.scheme == "https" else 80  # left out of the Host header
        self.sock = stream


class _Stream:
    """A socket for `http.client`, on which no call waits beyond the deadline."""

    def __init__(self, connection: socket.socket, time_left: TimeLeft, limit: int) -> None:
        self._connection = connection
        self._time_left = time_left
        self._left = limit

    def encrypt(self, tls: ssl.SSLContext, host: str) -> None:
        encrypted = tls.wrap_socket(self._connection, server_hostname=host, do_handshake_on_connect=False)
        self._connection = encrypted
        self._waiting(encrypted.do_handshake, select.POLLIN)

    def sendall(self, data: Any) -> None:
        left = memoryview(data).cast("B")
        while left:
            left = left[self._waiting(lambda: self._connection.send(left), select.POLLOUT) :]  # noqa: B023

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reading(self))

    def receive_into(self, buffer: Any) -> int:
        count = self._waiting(lambda: self._connection.recv_into(buffer), select.POLLIN)
        self._left -= count
        if self._left < 0:
            raise HeadTooLong("the head of the answer is too long")
        return count

    def close(self) -> None:
        """Do nothing: `http.client` calls this before it reads the body."""

    def end(self) -> None:
        self._connection.close()

    def _waiting(self, operation: Callable[[], T], event: int) -> T:
        while True:
            try:
                return operation()
            except ssl.SSLWantReadError:
                _wait(self._connection, select.POLLIN, self._time_left)
            except ssl.SSLWantWriteError:
                _wait(self._connection, select.POLLOUT, self._time_left)
            except BlockingIOError:
                _wait(self._connection, event, self._time_left)
            self._time_left.nap()  # an answer that never pauses may be endless all the same


class _Reading(io.RawIOBase):
    """The reading end, under a buffer of Python's own."""

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._stream.receive_into(buffer)


def _wait(connection: socket.socket, event: int, time_left: TimeLeft) -> None:
    poll = select.poll()
    poll.register(connection, event)
    while not poll.poll(time_left.nap() * 1000):
        pass
