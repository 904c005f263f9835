"""A stand-in for Azure Service Bus: AMQP 1.0 in pure Python, for the tests of programs that use the azure-servicebus SDK.

    codec, performatives, framing    the protocol: values, frames
    message, options, queue, namespace    the model: pure, with a clock
    journal, broker                  commands on the model, counted and interrupted
    links, session, connection, management, sas    what a client meets
    atom, certificate, server, standin    the rest of a server

Verified against the SDK, not against Azure.
"""

from tests.servers.servicebus_standin.errors import StandinError
from tests.servers.servicebus_standin.journal import Command, Kind
from tests.servers.servicebus_standin.options import QueueOptions
from tests.servers.servicebus_standin.queue import DeadLetter, Lock, State, Stored
from tests.servers.servicebus_standin.standin import ServiceBusStandin

__all__ = [
    "Command",
    "DeadLetter",
    "Kind",
    "Lock",
    "QueueOptions",
    "ServiceBusStandin",
    "StandinError",
    "State",
    "Stored",
]
