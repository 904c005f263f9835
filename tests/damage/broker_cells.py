"""The cells of a message in a broker, how a person with access puts one there, and the brokers themselves.

A broker keeps no tables.  What a person with access can do is to put a message, so a damaged one is put beside the others:
each field of its header, the message as a whole, and what the broker itself is told of it.
"""

import json
import time
from functools import partial
from types import MappingProxyType
from typing import get_type_hints

import greenstalk

from onward.backends.beanstalk import body
from onward.backends.servicebus import message
from onward.testing.contract.builders import an_envelope
from tests.damage.corpus import HOSTILE
from tests.servers.beanstalkd import beanstalkd_server
from tests.servers.engines import Engine
from tests.servers.servicebus import entity, servicebus, url_of
from tests.servers.servicebus_standin.codec import CodecError, Described, Long, Symbol, Timestamp, UInt, ULong, encode
from tests.servers.servicebus_standin.message import Content

TUBE = "onward.default.default"
# The broker, or who meets such a message, removes it: that is what the field is for.
EXPIRING = frozenset({"expires_at", "time_to_live"})


def sealed_jobs(_, count):
    """Jobs that are sealed and not put anywhere yet."""
    return [an_envelope(job="plain", payload={"n": n}) for n in range(count)]


TABLES = MappingProxyType({"header": sealed_jobs, "message": sealed_jobs, "native": sealed_jobs})
# What a message tells its broker, in the order that AMQP has them.
PROPERTIES = (
    "message_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
)


def as_bytes(value):
    return value if isinstance(value, bytes) else str(value).encode()


def place_of(value):
    """Which of the corpus it is, between 0 and 1: where a message is cut, and where a bit of it is flipped."""
    return list(HOSTILE.values()).index(value) / len(HOSTILE)


def cut(whole, value):
    return whole[: int(place_of(value) * len(whole))]


def flipped(whole, value):
    at = int(place_of(value) * len(whole))
    return whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :]


BODIES = {"body": lambda _, value: as_bytes(value), "cut": cut, "flipped": flipped}


class BeanstalkCells:
    """A body begins with a line of JSON."""

    SCENES = TABLES
    QUEUES = "default,abandoned"
    COLUMNS = MappingProxyType(
        {
            "header": tuple(get_type_hints(body.BodyHeader)),
            "message": ("magic", "version", "line", "sealed", "whole", "cut", "flipped"),
            "native": ("priority", "delay", "ttr"),
        }
    )

    def __init__(self, store):
        self._connect = partial(store.server.connect, use=TUBE)
        self._client = self._connect()

    def columns(self, table):
        return self.COLUMNS[table]

    def write(self, cell, row, value):
        whole = body.encode(body.BodyHeader.of(row, priority=row.priority, ttr=120), row.data, 65_535)
        told = {}
        if cell.table == "native":  # the protocol has nothing but numbers for these
            told = {cell.column: value if isinstance(value, int) else int(place_of(value) * 2**32)}
        else:
            whole = self._damaged(cell, whole, value)
        try:
            self._client.put(whole, **told)
        except greenstalk.Error:
            self._client.close()  # the server has taken what followed for commands
            self._client = self._connect()
            return False
        return True

    def _damaged(self, cell, whole, value):
        line, _, data = whole.partition(b"\n")
        magic, _, header = line.partition(b" ")
        if cell.table == "header":
            fields = json.loads(header)
            fields[cell.column] = "HERE"
            return magic + b" " + json.dumps(fields).encode().replace(b'"HERE"', _as_json(value)) + b"\n" + data
        match cell.column:
            case "magic":
                return as_bytes(value) + b" " + header + b"\n" + data
            case "version":
                return magic.partition(b"/")[0] + b"/" + as_bytes(value) + b" " + header + b"\n" + data
            case "line":
                return magic + b" " + as_bytes(value) + b"\n" + data
            case "sealed":
                return line + b"\n" + as_bytes(value)
            case "whole":
                return as_bytes(value)
            case "cut":
                return cut(whole, value)
            case "flipped":
                return flipped(whole, value)


def _as_json(value):
    """Bytes that are JSON as they are, others as text which is none."""
    if not isinstance(value, bytes):
        return json.dumps(value).encode()
    return value if value[:1] in b"[{" else b'"' + value + b'"'


class ServiceBusCells:
    """The header is a message's application properties.  They are written as AMQP has them: the SDK writes only some."""

    SCENES = TABLES
    QUEUES = "default,abandoned"
    COLUMNS = MappingProxyType(
        {
            "header": ("onward", *get_type_hints(message.MessageHeader), "a property of another's"),
            "message": ("body", "cut", "flipped", "value", "sequence", "no properties"),
            "native": (*PROPERTIES, "time_to_live", "scheduled", "delivery_count"),
        }
    )

    def __init__(self, store):
        self._bus = store.server

    def columns(self, table):
        return self.COLUMNS[table]

    def write(self, cell, row, value):
        try:
            raw = self._damaged(cell, row, value)
        except CodecError:
            return False
        queue = self._bus._namespace.find(entity())

        def put():
            number = queue.put(Content.parse(raw))
            if cell.column == "delivery_count":  # as often as a person may take it and give it back
                (stored,) = (each for each in queue.peek() if each.sequence_number == number)
                stored.delivery_count = int(place_of(value) * queue.options.max_delivery_count)

        self._bus._server.call(put)
        return True

    def _damaged(self, cell, row, value):
        header = message.MessageHeader.of(row)
        application = {name: _as_amqp(each) for name, each in message._properties(header).items()}
        native = {"message_id": message.message_id(header), "subject": header.job}
        sections = {0x75: row.data}
        match cell.table, cell.column:
            case "header", column:
                application[column] = _as_amqp(value)
            case "native", "time_to_live":
                sections = {0x70: [True, None, UInt(place_of(value) * 1000)], **sections}
            case "native", "scheduled":
                due = Timestamp(time.time() * 1000 + place_of(value) * 5000)
                sections = {0x72: {Symbol("x-opt-scheduled-enqueue-time"): due}, **sections}
            case "native", column:
                native[column] = _as_amqp(value)
            case "message", "value":
                sections = {0x77: _as_amqp(value)}
            case "message", "sequence":
                sections = {0x76: [_as_amqp(value), None]}
            case "message", "no properties":
                application = {}
            case "message", column:
                sections = {0x75: BODIES[column](row.data, value)}
        sections |= {0x73: [native.get(name) for name in PROPERTIES], 0x74: application}
        return b"".join(encode(Described(ULong(code), each)) for code, each in sorted(sections.items()))


def _as_amqp(value):
    return Long(value) if isinstance(value, int) else value


class BeanstalkStore:
    """The tubes of a server, empty at first."""

    def __init__(self, server, _):
        self.server = server
        self.settings = {}
        server.empty()

    def url(self, *, patience=None):
        return self.server.url()


class ServiceBusStore(BeanstalkStore):
    """The queues of a stand-in, empty at first."""

    def __init__(self, server, _):
        self.server = server
        self.settings = {}
        server.clear()

    def url(self, *, patience=None):
        return url_of(self.server)


class CompanionStore(BeanstalkStore):
    """Empty tubes, and beside them a file."""

    def __init__(self, server, folder):
        super().__init__(server, folder)
        self.file = folder / "jobs.db"
        self.settings = {"store": f"sqlite:///{self.file}"}


BROKER_CELLS = {"beanstalkd": BeanstalkCells, "servicebus": ServiceBusCells}
BROKERS = {
    "beanstalkd": Engine(beanstalkd_server, BeanstalkStore),
    "servicebus": Engine(partial(servicebus, "default", "abandoned", "dead", lock_duration=30), ServiceBusStore),
    "companion": Engine(beanstalkd_server, CompanionStore),
}
