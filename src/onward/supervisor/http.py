"""A small HTTP server for probes and metrics: one thread, the standard library, nothing that a client can harm.

It answers ``GET`` and ``HEAD`` and closes the connection.  A request has at most 8 KiB and 5 seconds; of more than 64
connections the oldest is closed, so a client that holds many open keeps no probe out.  An answer that is not ready yet does
not hold up the others: its connection waits until the thread is woken, or for its time.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from onward.base.logs import get_logger
from onward.supervisor.mailbox import Mailbox

__all__ = ["HttpServer", "ProbeAnswer", "bind"]

logger = get_logger("onward.supervisor")

_MOST_CONNECTIONS = 64
_LONGEST_REQUEST = 8192
_PAUSE = 1.0
_PHRASES = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 431: "Request Header Fields Too Large",
    500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip


class ProbeAnswer(NamedTuple):
    """A status and a text."""

    status: int
    text: str
    content_type: str = "text/plain; charset=utf-8"


Answers = Callable[[str, bool], ProbeAnswer | None]  # by path; None: not ready yet.  True: it must not wait any longer


def bind(host: str, port: int) -> socket.socket:
    """Open a socket that listens.  Raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=_MOST_CONNECTIONS)
    listening.setblocking(False)  # noqa: FBT003
    return listening


class _Connection:
    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.begun = time.monotonic()
        self.request = bytearray()
        self.path: str | None = None  # set: its answer is not ready
        self.head_only = False
        self.answer = b""


class HttpServer:
    """Serves until it is stopped.  ``every_second`` is called by the same thread."""

    def __init__(
        self,
        listening: socket.socket | None,
        answers: Answers,
        *,
        every_second: Callable[[], None] = lambda: None,
        within: float = 5.0,
        patience: float = 3.0,
    ) -> None:
        """``within``: seconds for a request and its answer.  ``patience``: seconds after which an answer must not wait."""
        self._listening = listening
        self._answers = answers
        self._every_second = every_second
        self._within = within
        self._patience = patience
        self._mailbox = Mailbox()
        self._selector = selectors.DefaultSelector()
        self._connections: dict[socket.socket, _Connection] = {}  # the oldest first
        self._complained = False
        self._ended = False
        self._closed = False
        self._waking = threading.Lock()  # other threads wake this one while it ends
        self._next_second = 0.0
        self._accepts = False
        self._thread = threading.Thread(target=self._serve, name="onward-listen", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Ask again for answers that were not ready."""
        with self._waking:
            if not self._closed:
                self._mailbox.post()

    def stop(self) -> None:
        self._ended = True
        self.wake()
        self._thread.join(_PAUSE)
        with self._waking:
            if not (self._closed or self._thread.is_alive()):
                self._closed = True
                self._mailbox.close()

    def _serve(self) -> None:
        with self._selector:
            self._selector.register(self._mailbox, selectors.EVENT_READ)
            while not self._ended:
                try:
                    self._turn()
                except Exception as error:  # noqa: BLE001  jobs go on, and the next request is served
                    self._complain(error)
            for connection in list(self._connections.values()):
                self._close(connection)
            if self._listening is not None:
                self._listening.close()

    def _complain(self, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            logger.error("a probe or scrape could not be answered; further such errors are not logged", exc_info=error)

    def _turn(self) -> None:
        for key, _ in self._selector.select(max(0.0, self._next_second - time.monotonic())):
            if key.fileobj is self._mailbox:
                self._mailbox.deliver()
            elif key.fileobj is self._listening:
                self._accept()
            elif (connection := self._connections.get(key.data)) is not None:  # else it was closed in this turn
                self._go_on(connection)
        for connection in list(self._connections.values()):
            self._look_at(connection)
        if time.monotonic() >= self._next_second:
            self._next_second = time.monotonic() + _PAUSE
            self._listen(on=True)
            self._every_second()

    def _listen(self, *, on: bool) -> None:
        if self._listening is not None and on != self._accepts:
            self._accepts = on
            if on:
                self._selector.register(self._listening, selectors.EVENT_READ)
            else:
                self._selector.unregister(self._listening)

    def _accept(self) -> None:
        assert self._listening is not None
        try:
            connected, _ = self._listening.accept()
        except BlockingIOError:
            return
        except OSError:  # the system has no file left: asking again at once would not help
            self._listen(on=False)
            return
        connected.setblocking(False)  # noqa: FBT003
        while len(self._connections) >= _MOST_CONNECTIONS:
            self._close(next(iter(self._connections.values())))
        self._connections[connected] = _Connection(connected)
        self._selector.register(connected, selectors.EVENT_READ, data=connected)

    def _go_on(self, connection: _Connection) -> None:
        """Read more of a request, or write more of its answer."""
        try:
            if connection.answer:
                sent = connection.socket.send(connection.answer)
                connection.answer = connection.answer[sent:]
                if not connection.answer:
                    self._close(connection)
            else:
                self._read(connection)
        except BlockingIOError:
            pass
        except OSError:  # the client is gone
            self._close(connection)

    def _read(self, connection: _Connection) -> None:
        arrived = connection.socket.recv(_LONGEST_REQUEST)
        if not arrived:
            self._close(connection)
        elif connection.path is None:  # what comes after a request is not read
            connection.request += arrived
            if b"\n\r\n" in connection.request or b"\n\n" in connection.request:
                self._begin(connection)
            elif len(connection.request) > _LONGEST_REQUEST:
                self._write(connection, ProbeAnswer(431, "the request is too long\n"))

    def _begin(self, connection: _Connection) -> None:
        words = bytes(connection.request).split(b"\n", 1)[0].split()
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            self._write(connection, ProbeAnswer(400, "this is no HTTP request\n"))
        elif words[0] not in (b"GET", b"HEAD"):
            self._write(connection, ProbeAnswer(405, "only GET is answered\n"))
        else:
            connection.head_only = words[0] == b"HEAD"
            connection.path = words[1].decode("ascii", errors="replace").partition("?")[0]

    def _look_at(self, connection: _Connection) -> None:
        """Answer if there is an answer, and close what takes too long."""
        age = time.monotonic() - connection.begun
        if connection.path is not None and not connection.answer:
            try:
                answer = self._answers(connection.path, age >= self._patience)
            except Exception as error:  # noqa: BLE001  of our own code: it is logged
                self._complain(error)
                answer = ProbeAnswer(500, "this could not be answered: see the log\n")
            if answer is not None:
                self._write(connection, answer)
        if age >= self._within:
            self._close(connection)

    def _write(self, connection: _Connection, answer: ProbeAnswer) -> None:
        body = answer.text.encode(errors="replace")
        head = (
            f"HTTP/1.1 {answer.status} {_PHRASES[answer.status]}\r\nContent-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
            f"{'Allow: GET, HEAD' + chr(13) + chr(10) if answer.status == 405 else ''}Connection: close\r\n\r\n"
        )
        connection.answer = head.encode() + (b"" if connection.head_only else body)
        self._selector.modify(connection.socket, selectors.EVENT_WRITE, data=connection.socket)

    def _close(self, connection: _Connection) -> None:
        if self._connections.pop(connection.socket, None) is not None:
            self._selector.unregister(connection.socket)
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_WR)
            connection.socket.close()
