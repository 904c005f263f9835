"""A session: the links that share one channel, their deliveries, and how those are settled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.servers.servicebus_standin.broker import Broker, Settlement
from tests.servers.servicebus_standin.codec import Described, Symbol, ULong
from tests.servers.servicebus_standin.errors import NotSupported, Refusal
from tests.servers.servicebus_standin.links import IncomingLink, OutgoingLink, Unsettled
from tests.servers.servicebus_standin.management import Inbox, Management, Node, TokenDesk
from tests.servers.servicebus_standin.namespace import entity_path
from tests.servers.servicebus_standin.performatives import (
    Attach,
    Begin,
    Detach,
    Disposition,
    Flow,
    Outcome,
    Performative,
    Transfer,
    amqp_error,
)
from tests.servers.servicebus_standin.queue import Queue

if TYPE_CHECKING:
    from tests.servers.servicebus_standin.connection import Connection

__all__ = ["Session"]

_WINDOW = 0x7FFFFFFF
_MANAGEMENT = "/$management"
_SETTLED_BY_SENDER = 1  # snd-settle-mode: receive and delete
_RECEIVER = True  # role


class Session:
    def __init__(self, connection: Connection, broker: Broker, channel: int, begin: Begin) -> None:
        self.window = begin.incoming_window  # frames that the client is ready to take
        self.unsettled: dict[int, Unsettled] = {}
        self._connection = connection
        self._broker = broker
        self._channel = channel
        self._next_incoming_id = begin.next_outgoing_id
        self._next_outgoing_id = 0  # counts frames
        self._next_delivery_id = 0  # counts messages
        self._incoming: dict[int, IncomingLink] = {}
        self._outgoing: dict[int, OutgoingLink] = {}
        self.send(
            Begin(
                remote_channel=channel,
                next_outgoing_id=0,
                incoming_window=_WINDOW,
                outgoing_window=_WINDOW,
                handle_max=255,
            )
        )

    def handle(self, said: Performative, payload: bytes) -> None:
        match said:
            case Attach():
                self._attach(said)
            case Flow():
                self._flow(said)
            case Transfer():
                self._next_incoming_id += 1
                if (link := self._incoming.get(said.handle)) is not None:
                    link.transfer(said, payload)
            case Disposition():
                self._settle(said)
            case Detach():
                self._detach(said.handle)
                self.send(Detach(handle=said.handle, closed=True))

    def close(self) -> None:
        for handle in [*self._outgoing]:
            self._detach(handle)

    def send(self, said: Performative, payload: bytes = b"") -> None:
        self._connection.send(self._channel, said.encoded() + payload)

    def send_flow(self, handle: int, delivery_count: int, credit: int, *, drain: bool = False) -> None:
        self.send(
            Flow(
                next_incoming_id=self._next_incoming_id,
                incoming_window=_WINDOW,
                next_outgoing_id=self._next_outgoing_id,
                outgoing_window=_WINDOW,
                handle=handle,
                delivery_count=delivery_count,
                link_credit=credit,
                drain=drain,
            )
        )

    def send_transfer(self, first: Transfer, payload: bytes) -> int:
        """Send a message in as many frames as it needs.  A message that has begun is finished, whatever the window says."""
        first.delivery_id = self._next_delivery_id
        self._next_delivery_id += 1
        room = self._connection.max_frame_size - 512  # more than a head and a performative take
        transfer = first
        for at in range(0, max(1, len(payload)), room):
            transfer.more = at + room < len(payload)
            self.send(transfer, payload[at : at + room])
            self._next_outgoing_id += 1
            self.window -= 1
            transfer = Transfer(handle=first.handle)
        return first.delivery_id

    def reply(self, address: str, payload: bytes) -> None:
        """Send a node's answer to the link that receives from it."""
        for link in self._outgoing.values():
            if link.address == address:
                link.reply(payload)
                return

    def _attach(self, attach: Attach) -> None:
        try:
            if attach.role is _RECEIVER:
                self._attach_outgoing(attach)
            else:
                self._attach_incoming(attach)
        except Refusal as refusal:
            # A link is refused by attaching it to nothing, and detaching it with the reason.
            self.send(_answer(attach, source=None, target=None))
            error = amqp_error(refusal.condition, refusal.description)
            self.send(Detach(handle=attach.handle, closed=True, error=error))

    def _attach_outgoing(self, attach: Attach) -> None:
        address = _address(attach.source)
        queue = None
        if address != "$cbs":
            self._connection.check_access(address)
            queue = self._queue(address)
        is_reply = address == "$cbs" or address.endswith(_MANAGEMENT)
        if _asks_for_a_session(attach.source):
            raise NotSupported("Sessions are not part of this stand-in.")
        deletes = attach.snd_settle_mode == _SETTLED_BY_SENDER
        link = OutgoingLink(self, attach.handle, address, queue=None if is_reply else queue, deletes=deletes)
        self._outgoing[attach.handle] = link
        self.send(_answer(attach, initial_delivery_count=0))
        if link.queue is not None:
            self._broker.subscribe(link.queue, link)

    def _attach_incoming(self, attach: Attach) -> None:
        address = _address(attach.target)
        link = self._incoming[attach.handle] = IncomingLink(self, attach.handle, address, self._node(address))
        limit = self._broker.max_message_size
        properties = {Symbol("com.microsoft:max-message-batch-size"): ULong(limit)}
        self.send(_answer(attach, max_message_size=limit, properties=properties))
        link.open()

    def _node(self, address: str) -> Node:
        if address == "$cbs":
            return TokenDesk(self._broker, self._connection.grant)
        self._connection.check_access(address)
        node = Management if address.endswith(_MANAGEMENT) else Inbox
        return node(self._broker, self._queue(address))

    def _queue(self, address: str) -> Queue:
        return self._broker.namespace.find(address.removesuffix(_MANAGEMENT))

    def _flow(self, flow: Flow) -> None:
        seen = 0 if flow.next_incoming_id is None else flow.next_incoming_id
        self.window = seen + flow.incoming_window - self._next_outgoing_id
        link = None if flow.handle is None else self._outgoing.get(flow.handle)
        if link is not None:
            link.give_credit(flow)
        for each in self._outgoing.values():
            each.flush()
        self._broker.pump()
        if link is not None and flow.drain:
            link.drain()

    def _detach(self, handle: int) -> None:
        self._incoming.pop(handle, None)
        link = self._outgoing.pop(handle, None)
        if link is not None and link.queue is not None:
            self._broker.unsubscribe(link.queue, link)

    def _settle(self, said: Disposition) -> None:
        if said.role is not _RECEIVER or said.state is None:
            return
        last = said.first if said.last is None else said.last
        for number in [number for number in self.unsettled if said.first <= number <= last]:
            outcome = self._apply(self.unsettled.pop(number), said.state)
            if not said.settled:
                self.send(Disposition(role=False, first=number, last=number, settled=True, state=outcome))

    def _apply(self, delivery: Unsettled, wanted: Described) -> Described:
        """Settle one delivery, and say what became of it.

        The answer repeats the outcome that was applied.  An error inside a rejection would mean that it was not, so a
        dead letter is confirmed by a rejection without one.
        """
        how, reason, description = _settlement(wanted)
        try:
            self._broker.settle(how, delivery.queue, [delivery.token], reason=reason, description=description)
        except Refusal as refusal:
            return Outcome.REJECTED.of(amqp_error(refusal.condition, refusal.description))
        return Outcome.REJECTED.of(None) if how == "dead-letter" else wanted


def _settlement(outcome: Described) -> tuple[Settlement, str | None, str | None]:
    fields: list[Any] = [*outcome.value, None, None]
    match outcome.descriptor:
        case Outcome.ACCEPTED:
            return "complete", None, None
        case Outcome.REJECTED:
            info = (fields[0].value[2] if fields[0] is not None and len(fields[0].value) > 2 else None) or {}
            return "dead-letter", info.get("DeadLetterReason"), info.get("DeadLetterErrorDescription")
        case Outcome.RELEASED:
            return "release", None, None
        case Outcome.MODIFIED:
            return "defer" if fields[1] else "abandon", None, None
    raise NotSupported(f"{outcome.descriptor} is not an outcome of this stand-in.")


def _answer(attach: Attach, **changes: Any) -> Attach:
    """The same link, seen from here."""
    same = {
        "source": attach.source,
        "target": attach.target,
        "snd_settle_mode": 2 if attach.snd_settle_mode is None else attach.snd_settle_mode,
        "rcv_settle_mode": attach.rcv_settle_mode or 0,
    }
    return Attach(name=attach.name, handle=attach.handle, role=not attach.role, **{**same, **changes})


def _address(terminus: Described | None) -> str:
    address = terminus.value[0] if terminus is not None and terminus.value else None
    return entity_path(str(address or ""))


def _asks_for_a_session(source: Described | None) -> bool:
    filters = source.value[7] if source is not None and len(source.value) > 7 else None
    return "com.microsoft:session-filter" in (filters or {})
