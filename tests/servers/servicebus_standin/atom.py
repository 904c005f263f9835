"""The properties of queues over HTTPS, in the Atom of the SDK's administration client.  Reading only."""

from __future__ import annotations

from asyncio import StreamReader, StreamWriter
from datetime import timedelta
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit
from xml.etree.ElementTree import Element, SubElement, tostring

from tests.servers.servicebus_standin.broker import Broker
from tests.servers.servicebus_standin.errors import NotSupported, Refusal
from tests.servers.servicebus_standin.options import micros
from tests.servers.servicebus_standin.queue import Queue, State

__all__ = ["serve"]

_ATOM = "{http://www.w3.org/2005/Atom}"
_BUS = "{http://schemas.microsoft.com/netservices/2010/10/servicebus/connect}"
_COUNTS = "{http://schemas.microsoft.com/netservices/2011/06/servicebus}"
_FOREVER = "P10675199DT2H48M5.4775807S"


async def serve(broker: Broker, start: bytes, reader: StreamReader, writer: StreamWriter) -> None:
    """Answer one request, and close."""
    head = (start + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    request, *lines = head.split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    # What is left unread when a socket closes would reset the connection, and take the answer with it.
    await reader.readexactly(int(headers.get("content-length", "0")))
    method, target, *_ = [*request.split(" "), "/"]
    try:
        status, body = "200 OK", _answer(broker, method, urlsplit(target), headers.get("authorization", ""))
    except Refusal as refusal:
        status, body = f"{refusal.status} Refused", _error(refusal)
    content = tostring(body, encoding="utf-8", xml_declaration=True)
    writer.write(
        f"HTTP/1.1 {status}\r\nContent-Type: application/atom+xml;type=entry;charset=utf-8\r\n"
        f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode()
        + content
    )


def _answer(broker: Broker, method: str, target: SplitResult, authorization: str) -> Element:
    broker.keys.check(authorization.removeprefix("Bearer "))
    if method != "GET":
        raise NotSupported(f"{method}: this stand-in only tells the properties of queues.")
    path = unquote(target.path).strip("/")
    if path.lower() != "$resources/queues":
        # A queue that is not there is an empty feed, and not an error: so does Azure, and so the SDK expects.
        return next((_entry(queue) for queue in _queues(broker) if queue.name.lower() == path.lower()), _feed([]))
    asked = parse_qs(target.query)
    skip, top = (int(asked.get(name, [default])[0]) for name, default in (("$skip", "0"), ("$top", "100")))
    return _feed(_queues(broker)[skip : skip + top])


def _queues(broker: Broker) -> list[Queue]:
    return [queue for queue in broker.namespace if queue.dead_letters is not None]


def _feed(queues: list[Queue]) -> Element:
    feed = Element(f"{_ATOM}feed")
    SubElement(feed, f"{_ATOM}title").text = "Queues"
    feed.extend(_entry(queue) for queue in queues)
    return feed


def _entry(queue: Queue) -> Element:
    entry = Element(f"{_ATOM}entry")
    SubElement(entry, f"{_ATOM}title").text = queue.name
    content = SubElement(entry, f"{_ATOM}content", type="application/xml")
    description = SubElement(content, f"{_BUS}QueueDescription")
    options = queue.options
    window, lives = options.duplicate_detection_window, options.default_time_to_live
    messages = queue.peek()
    fields = {
        "LockDuration": _duration(options.lock_duration),
        "MaxSizeInMegabytes": "1024",
        "RequiresDuplicateDetection": _boolean(window is not None),
        "RequiresSession": "false",
        "DefaultMessageTimeToLive": _FOREVER if lives is None else _duration(lives),
        "DeadLetteringOnMessageExpiration": _boolean(options.dead_letter_on_expiration),
        "DuplicateDetectionHistoryTimeWindow": _duration(600 if window is None else window),
        "MaxDeliveryCount": str(options.max_delivery_count),
        "EnableBatchedOperations": "true",
        "SizeInBytes": str(sum(message.content.size for message in messages)),
        "MessageCount": str(len(messages)),
        "Status": "Active",
    }
    for name, text in fields.items():
        SubElement(description, _BUS + name).text = text
    _add_counts(description, queue)
    return entry


def _add_counts(description: Element, queue: Queue) -> None:
    dead = queue.dead_letters.peek() if queue.dead_letters else []
    states = [message.state for message in queue.peek()]
    counts = {
        "ActiveMessageCount": states.count(State.ACTIVE),
        "DeadLetterMessageCount": len(dead),
        "ScheduledMessageCount": states.count(State.SCHEDULED),
        "TransferMessageCount": 0,
        "TransferDeadLetterMessageCount": 0,
    }
    details = SubElement(description, f"{_BUS}CountDetails")
    for name, number in counts.items():
        SubElement(details, _COUNTS + name).text = str(number)


def _error(refusal: Refusal) -> Element:
    error = Element("Error")
    SubElement(error, "Code").text = str(refusal.status)
    SubElement(error, "Detail").text = refusal.description
    return error


def _duration(length: float | timedelta) -> str:
    """
    >>> _duration(90.5)
    'PT90.5S'
    """
    return f"PT{micros(length) / 1_000_000:g}S"


def _boolean(value: bool) -> str:
    return "true" if value else "false"
