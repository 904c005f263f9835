"""The socket, and the thread with the event loop behind it.

One port speaks everything that the SDK may say there.  The first byte tells TLS from plain text, the first word tells AMQP
from HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from asyncio import StreamReader, StreamReaderProtocol, StreamWriter
from collections.abc import Callable
from typing import TypeVar

from onward.base.clock import SECOND
from tests.servers.servicebus_standin import atom
from tests.servers.servicebus_standin.broker import Broker
from tests.servers.servicebus_standin.certificate import Certificate
from tests.servers.servicebus_standin.connection import Connection
from tests.servers.servicebus_standin.errors import StandinError

__all__ = ["Server"]

T = TypeVar("T")
logger = logging.getLogger(__name__)

_TLS_HANDSHAKE = b"\x16"
_LOOK_EVERY = 0.02  # at a clock that only a test moves, while something waits for it
_PATIENCE = 10


class Server:
    """Runs between ``start`` and ``stop``, again and again, on the same port."""

    def __init__(self, broker: Broker, certificate: Certificate, host: str, port: int, *, clock_runs: bool) -> None:
        self.port = port
        self._broker = broker
        self._certificate = certificate
        self._host = host
        self._clock_runs = clock_runs
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = threading.Event()
        self._end: asyncio.Future[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._welcomes: set[asyncio.Task[None]] = set()
        self._writers: set[StreamWriter] = set()

    def start(self) -> None:
        self._finish()
        if self._thread is not None:
            raise StandinError("the stand-in runs already")
        listener = self._listen()
        self.port = listener.getsockname()[1]
        ready = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._main(listener, ready)), name=f"servicebus-standin-{self.port}", daemon=True
        )
        self._thread.start()
        if not ready.wait(_PATIENCE):
            raise StandinError(f"the stand-in's thread did not begin within {_PATIENCE} seconds")

    def stop(self) -> None:
        """End every connection in the middle of whatever it says.  What is stored stays."""
        if self._thread is not None:
            self._stopping.set()
            self.call(self._die)
            self._finish()

    def drop_connections(self) -> int:
        """Cut every connection, without a word of farewell."""
        writers = [*self._writers]
        for writer in writers:
            # A process that was forked holds the socket, too: closing it here alone would not be seen at the other end.
            with contextlib.suppress(OSError):
                writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
            writer.transport.abort()
        return len(writers)

    def pump(self) -> None:
        self._broker.pump()

    def call(self, act: Callable[[], T]) -> T:
        """Run something on the server's thread, where the queues are, and wait for it."""
        if self._loop is None or threading.current_thread() is self._thread:
            return act()

        async def acting() -> T:
            return act()

        return asyncio.run_coroutine_threadsafe(acting(), self._loop).result(_PATIENCE)

    def _listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self._host, self.port))
        except OSError as error:
            listener.close()
            raise StandinError(
                f"cannot listen on {self._host}:{self.port}: {error}; choose another host or port"
            ) from error
        listener.listen()
        listener.settimeout(0)
        return listener

    def _die(self) -> None:
        self.drop_connections()
        if self._end is not None and not self._end.done():
            self._end.set_result(None)

    def _finish(self) -> None:
        """Wait for the thread that was told to stop; unless it is this one, which cannot wait for itself."""
        if self._thread is None or not self._stopping.is_set() or self._thread is threading.current_thread():
            return
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            raise StandinError(f"the stand-in did not stop within {_PATIENCE} seconds")
        self._thread = self._loop = self._end = None

    async def _main(self, listener: socket.socket, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.create_future()
        self._alarm = None
        self._broker.pumped = self._plan
        self._broker.pump()
        accepting = asyncio.create_task(self._accept(listener))
        ready.set()
        await self._end
        self.drop_connections()
        tasks = [accepting, *self._welcomes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        listener.shutdown(socket.SHUT_RDWR)  # for forked processes, as above: the port must be free for the next start
        listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(listener)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            welcome = asyncio.create_task(self._welcome(client))
            self._welcomes.add(welcome)
            welcome.add_done_callback(self._welcomes.discard)

    async def _welcome(self, client: socket.socket) -> None:
        try:
            reader, writer = await self._streams(client)
        except (OSError, ssl.SSLError) as error:
            client.close()
            logger.info("a client did not get as far as its first word: %s", error)
            return
        self._writers.add(writer)
        try:
            await self._serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass  # gone
        except Exception:
            logger.exception("the stand-in has failed on a connection")
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _streams(self, client: socket.socket) -> tuple[StreamReader, StreamWriter]:
        loop = asyncio.get_running_loop()
        client.settimeout(0)
        tls = await _first_byte(client) == _TLS_HANDSHAKE
        context = self._certificate.context if tls else None
        reader = StreamReader(limit=2**20)
        transport, protocol = await loop.connect_accepted_socket(
            lambda: StreamReaderProtocol(reader), client, ssl=context
        )
        return reader, StreamWriter(transport, protocol, reader, loop)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        start = await reader.readexactly(4)
        if start == b"AMQP":
            await Connection(self._broker, reader, writer).serve(start)
        else:
            await atom.serve(self._broker, start, reader, writer)
        await writer.drain()

    def _plan(self) -> None:
        """Be there when the clock next changes something."""
        if self._loop is None or (due := self._broker.namespace.next_change_at()) is None:
            return
        pause = (due - self._broker.namespace.clock.micros()) / SECOND if self._clock_runs else _LOOK_EVERY
        when = self._loop.time() + max(0.001, pause)
        if self._alarm is not None and self._alarm.when() <= when:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._broker.pump()


async def _first_byte(client: socket.socket) -> bytes:
    """Wait for it, and leave it where it is: the handshake of TLS needs it again."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(client, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(client)
    return client.recv(1, socket.MSG_PEEK)
