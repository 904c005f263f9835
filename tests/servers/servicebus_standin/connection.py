"""One connection of a client: the handshake, the frames, and what its tokens allow."""

from __future__ import annotations

import asyncio
import logging
from asyncio import StreamReader, StreamWriter

from tests.servers.servicebus_standin.broker import Broker
from tests.servers.servicebus_standin.codec import Array, CodecError, Symbol
from tests.servers.servicebus_standin.errors import Unauthorized
from tests.servers.servicebus_standin.framing import AMQP_HEADER, MAX_FRAME_SIZE, SASL, SASL_HEADER, frame, read_frame
from tests.servers.servicebus_standin.performatives import (
    Begin,
    Close,
    End,
    Open,
    Performative,
    SaslMechanisms,
    SaslOutcome,
    amqp_error,
    read,
)
from tests.servers.servicebus_standin.session import Session

__all__ = ["Connection"]

logger = logging.getLogger(__name__)

_IDLE_TIME_OUT = 240_000


class Connection:
    def __init__(self, broker: Broker, reader: StreamReader, writer: StreamWriter) -> None:
        self.max_frame_size = MAX_FRAME_SIZE
        self._broker = broker
        self._reader = reader
        self._writer = writer
        self._sessions: dict[int, Session] = {}
        self._ended: set[int] = set()
        self._granted: set[str] = set()
        self._heartbeat: asyncio.Task[None] | None = None

    async def serve(self, start: bytes) -> None:
        """Speak until either side has closed.  ``start`` is what was read already."""
        try:
            await self._shake_hands(start)
            while await self._serve_frame():
                await self._writer.drain()
        except (CodecError, NotImplementedError) as error:
            logger.warning("a client said what this stand-in does not understand: %s", error)
            self._say(0, Close(error=amqp_error("amqp:decode-error", str(error))))
        finally:
            if self._heartbeat is not None:
                self._heartbeat.cancel()
            for session in self._sessions.values():
                session.close()

    def send(self, channel: int, body: bytes) -> None:
        self._writer.write(frame(channel, body))

    def grant(self, path: str) -> None:
        """A token has been shown that is good for this path."""
        self._granted.add(path.lower())

    def check_access(self, address: str) -> None:
        path = address.lower()
        if not any(not granted or path == granted or path.startswith(f"{granted}/") for granted in self._granted):
            raise Unauthorized(f"Unauthorized access. 'Send' or 'Listen' claim(s) are required for '{address}'.")

    async def _shake_hands(self, start: bytes) -> None:
        header = start + await self._reader.readexactly(len(AMQP_HEADER) - len(start))
        if header == SASL_HEADER:
            mechanisms = Array(Symbol(name) for name in ("ANONYMOUS", "MSSBCBS", "PLAIN", "EXTERNAL"))
            self._writer.write(SASL_HEADER)
            self._writer.write(frame(0, SaslMechanisms(sasl_server_mechanisms=mechanisms).encoded(), SASL))
            await read_frame(self._reader)  # under any name: what counts is the token, later
            self._writer.write(frame(0, SaslOutcome(outcome=0).encoded(), SASL))
            header = await self._reader.readexactly(len(AMQP_HEADER))
        if header != AMQP_HEADER:
            raise CodecError(f"{header!r} does not begin AMQP 1.0")
        self._writer.write(AMQP_HEADER)

    async def _serve_frame(self) -> bool:
        channel, body = await read_frame(self._reader)
        if not body:
            return True  # a heartbeat
        said, payload = read(body)
        match said:
            case Open():
                self._open(said)
            case Begin():
                self._sessions[channel] = Session(self, self._broker, channel, said)
            case End():
                self._end(channel)
            case Close():
                self._say(0, Close())
                return False
            case _:
                self._hand_on(channel, said, payload)
        return True

    def _hand_on(self, channel: int, said: Performative, payload: bytes) -> None:
        session = self._sessions.get(channel)
        if session is not None:
            session.handle(said, payload)
            self._broker.pump()
        elif channel not in self._ended:  # the SDK ends a session first and detaches its links then
            raise CodecError(f"{type(said).__name__.lower()} on channel {channel}, which has no session")

    def _open(self, said: Open) -> None:
        if said.max_frame_size:
            self.max_frame_size = min(MAX_FRAME_SIZE, said.max_frame_size)
        answer = Open(
            container_id="servicebus-standin",
            max_frame_size=MAX_FRAME_SIZE,
            channel_max=255,
            idle_time_out=_IDLE_TIME_OUT,
        )
        self._say(0, answer)
        if said.idle_time_out:
            self._heartbeat = asyncio.create_task(self._beat(said.idle_time_out / 2000))

    def _end(self, channel: int) -> None:
        if (session := self._sessions.pop(channel, None)) is not None:
            session.close()
        self._ended.add(channel)
        self._say(channel, End())

    async def _beat(self, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            self.send(0, b"")

    def _say(self, channel: int, said: Performative) -> None:
        self.send(channel, said.encoded())
