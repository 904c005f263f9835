"""The two kinds of links: one that a client receives from, one that it sends on."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from tests.servers.servicebus_standin.errors import Refusal
from tests.servers.servicebus_standin.management import Node
from tests.servers.servicebus_standin.message import render
from tests.servers.servicebus_standin.performatives import Disposition, Flow, Outcome, Transfer, amqp_error
from tests.servers.servicebus_standin.queue import Queue, Stored

if TYPE_CHECKING:
    from tests.servers.servicebus_standin.session import Session

__all__ = ["IncomingLink", "OutgoingLink", "Unsettled"]

_CREDIT = 1000


class Unsettled:
    """A message that a client has, and the lock that it holds on it."""

    __slots__ = ("queue", "token")

    def __init__(self, queue: Queue, token: UUID) -> None:
        self.queue = queue
        self.token = token


class OutgoingLink:
    """A client receives here: the messages of a queue, or the replies of a node."""

    def __init__(self, session: Session, handle: int, address: str, *, queue: Queue | None, deletes: bool) -> None:
        self.address = address
        self.queue = queue
        self.deletes = deletes
        self._session = session
        self._handle = handle
        self._credit = 0
        self._delivery_count = 0
        self._replies: deque[bytes] = deque()

    @property
    def has_room(self) -> bool:
        return self._credit > 0 and self._session.window > 0

    def hand(self, message: Stored) -> None:
        if message.lock is None or self.queue is None:
            self._transfer(uuid4().bytes_le, render(message), settled=True)
            return
        # The delivery tag is the lock token, in the byte order of Windows: the SDK reads it back as that.
        tag = message.lock.token.bytes_le
        delivery_id = self._transfer(tag, render(message), settled=False)
        self._session.unsettled[delivery_id] = Unsettled(self.queue, message.lock.token)

    def reply(self, payload: bytes) -> None:
        self._replies.append(payload)
        self.flush()

    def flush(self) -> None:
        while self._replies and self.has_room:
            self._transfer(uuid4().bytes_le, self._replies.popleft(), settled=True)

    def give_credit(self, flow: Flow) -> None:
        """The client's credit counts from the deliveries that it had seen when it spoke."""
        self._credit = max(0, (flow.delivery_count or 0) + (flow.link_credit or 0) - self._delivery_count)

    def drain(self) -> None:
        """Use the credit up without messages, and say so."""
        self._delivery_count += self._credit
        self._credit = 0
        self._session.send_flow(self._handle, self._delivery_count, 0, drain=True)

    def _transfer(self, tag: bytes, payload: bytes, *, settled: bool) -> int:
        self._credit -= 1
        self._delivery_count += 1
        first = Transfer(handle=self._handle, delivery_tag=tag, message_format=0, settled=settled)
        return self._session.send_transfer(first, payload)


class IncomingLink:
    """A client sends here: to a queue, or to a node that answers."""

    def __init__(self, session: Session, handle: int, address: str, node: Node) -> None:
        self.address = address
        self._session = session
        self._handle = handle
        self._node = node
        self._received = 0
        self._first: Transfer | None = None
        self._parts: list[bytes] = []

    def open(self) -> None:
        self._session.send_flow(self._handle, self._received, _CREDIT)

    def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Collect the frames of a message, and act on the last."""
        first = self._first = self._first or transfer
        self._parts.append(payload)
        if transfer.more and not transfer.aborted:
            return
        whole, self._first, self._parts = b"".join(self._parts), None, []
        self._received += 1
        if not transfer.aborted:
            self._act(first, whole)
        if self._received % (_CREDIT // 2) == 0:
            self._session.send_flow(self._handle, self._received, _CREDIT)

    def _act(self, transfer: Transfer, whole: bytes) -> None:
        reply = None
        outcome = Outcome.ACCEPTED.of()
        try:
            reply = self._node.receive(whole, transfer.message_format or 0)
        except Refusal as refusal:
            outcome = Outcome.REJECTED.of(amqp_error(refusal.condition, refusal.description))
        if not transfer.settled:
            number = transfer.delivery_id
            assert number is not None
            self._session.send(Disposition(role=True, first=number, last=number, settled=True, state=outcome))
        if reply is not None:
            self._session.reply(self.address, reply)
