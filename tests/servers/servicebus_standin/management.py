"""The nodes that answer requests: ``$cbs``, which takes tokens, and ``<queue>/$management``.

A request is a message whose application properties name an operation; the answer goes to the link of the same session that
receives from the node, and its correlation id is the request's message id.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tests.servers.servicebus_standin.broker import Broker, Settlement
from tests.servers.servicebus_standin.codec import Array, Int, Long, Symbol, Timestamp
from tests.servers.servicebus_standin.errors import NotSupported, Refusal
from tests.servers.servicebus_standin.message import BATCH_FORMAT, read_request, render, render_reply, unpack_batch
from tests.servers.servicebus_standin.queue import Queue, Stored

__all__ = ["Inbox", "Management", "Node", "TokenDesk"]

_SETTLEMENTS: dict[str, Settlement] = {
    "completed": "complete",
    "abandoned": "abandon",
    "defered": "defer",  # the protocol spells it so
    "suspended": "dead-letter",
}


class Node(Protocol):
    """What a client's sending link leads to."""

    def receive(self, payload: bytes, message_format: int) -> bytes | None:
        """Take a message, and say what to reply, if anything; a refusal is raised."""
        ...


class Inbox:
    """A queue, as its senders see it."""

    def __init__(self, broker: Broker, queue: Queue) -> None:
        self._broker = broker
        self._queue = queue

    def receive(self, payload: bytes, message_format: int) -> None:
        self._broker.send(self._queue, unpack_batch(payload) if message_format == BATCH_FORMAT else [payload])


class TokenDesk:
    """``$cbs``: a token that is put here speaks for the connection from then on."""

    def __init__(self, broker: Broker, grant: Callable[[str], None]) -> None:
        self._broker = broker
        self._grant = grant

    def receive(self, payload: bytes, message_format: int) -> bytes:
        request_id, _, token = read_request(payload)
        status, description = 202, "Accepted"
        try:
            self._grant(self._broker.keys.check(str(token)))
        except Refusal as refusal:
            status, description = refusal.status, refusal.description
        return render_reply(request_id, {"status-code": Int(status), "status-description": description}, None)


class Management:
    def __init__(self, broker: Broker, queue: Queue) -> None:
        self._broker = broker
        self._queue = queue
        self._operations: dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {
            "com.microsoft:renew-lock": self._renew,
            "com.microsoft:schedule-message": self._schedule,
            "com.microsoft:cancel-scheduled-message": self._cancel,
            "com.microsoft:peek-message": self._peek,
            "com.microsoft:receive-by-sequence-number": self._receive_deferred,
            "com.microsoft:update-disposition": self._settle,
        }

    def receive(self, payload: bytes, message_format: int) -> bytes:
        request_id, application, body = read_request(payload)
        answer: dict[str, Any] = {"statusCode": Int(200), "statusDescription": "OK"}
        value = None
        try:
            operation = application.get("operation")
            if (act := self._operations.get(str(operation))) is None:
                raise NotSupported(f"{operation} is not an operation of this stand-in.")
            if (value := act(body)) is None:
                answer = {"statusCode": Int(204), "statusDescription": "No content"}
        except Refusal as refusal:
            answer = {
                "statusCode": Int(refusal.status),
                "statusDescription": refusal.description,
                "errorCondition": Symbol(refusal.condition),
            }
        return render_reply(request_id, answer, value)

    def _renew(self, body: dict[str, Any]) -> dict[str, Any]:
        messages = self._broker.renew(self._queue, body["lock-tokens"])
        return {"expirations": Array(Timestamp(each.lock.until // 1000) for each in messages if each.lock)}

    def _schedule(self, body: dict[str, Any]) -> dict[str, Any]:
        messages = [each["message"] for each in body["messages"]]
        numbers = self._broker.send(self._queue, messages, kind="schedule")
        return {"sequence-numbers": Array(Long(number) for number in numbers)}

    def _cancel(self, body: dict[str, Any]) -> dict[str, Any]:
        self._broker.cancel(self._queue, body["sequence-numbers"])
        return {}

    def _peek(self, body: dict[str, Any]) -> dict[str, Any] | None:
        found = self._broker.peek(self._queue, body["from-sequence-number"], body["message-count"])
        return {"messages": [{"message": render(message)} for message in found]} if found else None

    def _receive_deferred(self, body: dict[str, Any]) -> dict[str, Any]:
        delete = body.get("receiver-settle-mode") == 0
        found = self._broker.receive_deferred(self._queue, body["sequence-numbers"], delete=delete)
        return {"messages": [_locked(message) for message in found]}

    def _settle(self, body: dict[str, Any]) -> dict[str, Any]:
        status = body["disposition-status"]
        if (how := _SETTLEMENTS.get(status)) is None:
            raise NotSupported(f"{status} is not a disposition of this stand-in.")
        self._broker.settle(
            how,
            self._queue,
            body["lock-tokens"],
            reason=body.get("deadletter-reason") or None,
            description=body.get("deadletter-description") or None,
        )
        return {}


def _locked(message: Stored) -> dict[str, Any]:
    entry: dict[str, Any] = {"message": render(message)}
    if message.lock is not None:
        entry["lock-token"] = message.lock.token
    return entry
