"""The message of a job: the sealed bytes are its body, the counters its application properties.

A message cannot be changed.  A job that is put back is a new message with other counters, and another message id: the job's
id and its attempts, and how often it was put back without one.  So a queue that detects duplicates stores a copy that is
sent twice once, and never takes the next copy for the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from onward.backends.broker.header import Count, Header, NotOurs, cut
from onward.backends.servicebus.driver import sdk
from onward.base.clock import from_micros
from onward.errors import BackendRefused

__all__ = ["ROOM", "MessageHeader", "compose", "message_id", "read", "size_of"]

# The bytes of a message beside body and properties, and the bytes by which its counters may grow when it is put back.
ROOM = 4096
_MARK = "onward"
_VERSION = 1
_PER_MESSAGE, _PER_PROPERTY = 128, 16  # bytes around them
_SUBJECT = 128  # characters; it is for people who look at the queue
_INSTANTS = ("enqueued_at", "expires_at", "parked_since")  # as text: the SDK writes numbers in 32 bits


class MessageHeader(Header, frozen=True, omit_defaults=True, kw_only=True):
    """The header with a number that distinguishes copies with the same number of attempts."""

    rounds: Count = 0  # how often it was put back without an attempt, or replayed


def message_id(header: MessageHeader) -> str:
    """Return the message id of a copy.

    >>> header = MessageHeader(id="a", job="work", enqueued_at=0, max_crashes=3, attempts=2)
    >>> message_id(header), message_id(msgspec.structs.replace(header, rounds=1))
    ('a:2', 'a:2.1')
    """
    rounds = f".{header.rounds}" if header.rounds else ""
    return f"{header.id}:{header.attempts}{rounds}"


def compose(header: MessageHeader, data: bytes, due: int | None = None) -> Any:
    """Make the message.  ``due``: the instant before which the server does not deliver it."""
    return sdk.ServiceBusMessage(
        data,
        message_id=message_id(header),
        subject=header.job[:_SUBJECT],
        application_properties=_properties(header),
        # Never too early: the server counts milliseconds.
        scheduled_enqueue_time_utc=None if due is None else from_micros(-(-due // 1000) * 1000),
    )


def size_of(header: MessageHeader, data: bytes) -> int:
    """Return the size that the server will count, or more."""
    try:
        properties = sum(len(name) + len(str(value).encode()) + _PER_PROPERTY for name, value in _items(header))
        return len(data) + properties + 3 * len(header.id) + len(header.job.encode()) + _PER_MESSAGE
    except UnicodeEncodeError:
        raise BackendRefused(f"job {header.id} has a name that cannot be written down") from None


def read(message: Any) -> tuple[MessageHeader, bytes]:
    """Return the counters as they were written, and the sealed bytes."""
    properties = {_text(name): _text(value) for name, value in (message.application_properties or {}).items()}
    if properties.get(_MARK) != _VERSION:
        raise NotOurs("the message is not marked as a job of Onward")
    try:
        instants = {name: int(properties[name]) for name in _INSTANTS if name in properties}
        return msgspec.convert(properties | instants, MessageHeader), b"".join(message.body)
    except (ValueError, TypeError) as error:  # msgspec's is a ValueError
        raise NotOurs(str(error)) from None


def _properties(header: MessageHeader) -> dict[str | bytes, Any]:
    return dict(_items(header))


def _items(header: MessageHeader) -> list[tuple[str | bytes, int | str]]:
    fields: Mapping[str, int | str] = msgspec.to_builtins(msgspec.structs.replace(header, spent=cut(header.spent)))
    written = ((name, str(value) if name in _INSTANTS else value) for name, value in fields.items())
    return [(_MARK, _VERSION), *written]


def _text(value: Any) -> Any:
    """Return text as text: the SDK returns as bytes what it sent as text."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
