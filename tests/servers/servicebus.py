"""Service Bus for the tests of its backend: the stand-in, or a real namespace that the environment names.

The SDK takes half a second to open a link, and as much to close it.  So links outlive a test: a backend is made anew for
each, on a bus that is not closed with it.
"""

import contextlib
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from onward.backends.servicebus import ServiceBusBackend
from onward.backends.servicebus.bus import Bus
from onward.backends.servicebus.links import Receiver
from onward.backends.servicebus.names import Names
from onward.backends.servicebus.settings import create_command
from onward.backends.servicebus.url import parse_url
from onward.base.clock import SystemClock
from onward.testing.clock import FakeClock
from tests.servers.connecting import connected
from tests.servers.servicebus_standin import QueueOptions, ServiceBusStandin

LOCK = 300
QUEUES = ("default", "a", "b", "c", "axb", "mail", "failed", "other", "stage", "dead", "elsewhere", "done", "news", "x")
STRANGE = ("a'b", 'a"b', "a;--", "%", "_", "ünïcode", "a b")
REAL = "ONWARD_SERVICEBUS_URL"  # servicebus://KEYNAME:KEY@NAMESPACE.servicebus.windows.net


def entity(queue="default"):
    return Names("default").of(queue)


@contextlib.contextmanager
def servicebus(*queues, clock=None, **options):
    """A stand-in with queues that our backend accepts."""
    options = QueueOptions(**{"lock_duration": LOCK, "max_delivery_count": 2000, **options})
    with ServiceBusStandin(dict.fromkeys(map(entity, queues or ("default", "dead")), options), clock=clock) as bus:
        yield bus


def url_of(bus, **options):
    """The URL of one, by which a claim waits long for a message that it has seen: on a busy machine it comes late."""
    options = {"ca": bus.certificate, "patience_ms": 10_000, "timeout": 10, **options}
    query = "&".join(f"{name}={quote(str(value))}" for name, value in options.items())
    return f"servicebus://{bus.connection_string}?{query}"


class KeptBus(Bus):
    """One that a backend does not close."""

    _has_looked = False

    def look_at_all(self, ours):
        """Once: it is a request over HTTPS, and our queues stay as they are."""
        if not self._has_looked:
            super().look_at_all(ours)
            self._has_looked = True

    def close(self):
        """Later."""

    def really_close(self):
        super().close()


class Clients:
    """Backends for one test each, on links that outlive it."""

    def __init__(self, url):
        self._url = url
        self._buses = []

    def warm(self, count, queues):
        """Open the links of so many clients at once, for it is mostly waiting."""
        while len(self._buses) < count:
            self._buses.append(KeptBus(parse_url(self._url)))
        for bus in self._buses:
            bus.look_at_all(Names("default").queue)
        links = [link for bus in self._buses for queue in queues for link in (bus.sender, bus.receiver)]
        names = [entity(queue) for _ in self._buses for queue in queues for _ in range(2)]
        with ThreadPoolExecutor(32) as threads:
            list(threads.map(lambda open_link, name: _open(open_link(name)), links, names))

    @contextlib.contextmanager
    def lent(self, clock, **options):
        """Gives what opens one."""
        backends = []

        def open_client():
            if len(backends) == len(self._buses):
                self._buses.append(KeptBus(parse_url(self._url)))
            bus = self._buses[len(backends)]
            backends.append(backend := connected(ServiceBusBackend(bus, clock=clock)))
            return backend

        try:
            yield open_client
        finally:
            for backend in backends:
                backend.close()

    def close(self):
        with ThreadPoolExecutor(len(self._buses) or 1) as threads:
            list(threads.map(KeptBus.really_close, self._buses))


def _open(link):
    if isinstance(link, Receiver):
        link._receiver.__enter__()
    else:
        link._sender.__enter__()
        link._used_at = time.monotonic()  # it may have to be looked after


class StandIn:
    """Where the contract is tested, usually."""

    def __init__(self, bus, clock):
        self.clock = clock
        self.url = url_of(bus)
        self._bus = bus

    def empty(self):
        self._bus.clear()
        self.clock.set(
            self.clock.now().replace(microsecond=0)
        )  # a test may have moved it by less than the server counts


class RealClock(SystemClock):
    """Time that passes by itself.  A test that moves it further than a test waits is not for a real namespace."""

    def advance(self, by):
        if not 0 <= by <= 5:
            pytest.skip("a real namespace's clock cannot be moved")
        time.sleep(by)

    def set(self, instant):
        pytest.skip("a real namespace's clock cannot be moved")


class RealNamespace:
    """The same in Azure.  `python -m tests.servers.servicebus` prints the commands that make its queues."""

    def __init__(self, url):
        self.clock = RealClock()
        self.url = url
        self.backend = connected(ServiceBusBackend.from_url(url))

    def empty(self):
        """Remove every message that is not locked."""
        for queue in (*QUEUES, *STRANGE):
            channel = self.backend._channel(queue)
            while arrivals := channel.take(100):
                for arrival in arrivals:
                    channel.receiver.complete(arrival.message)


@contextlib.contextmanager
def namespace():
    """The stand-in; or, if the environment names one, a real namespace."""
    if real := os.environ.get(REAL):
        azure = RealNamespace(real)
        with contextlib.closing(azure.backend):
            yield azure
        return
    clock = FakeClock()
    with servicebus(*QUEUES, *STRANGE, clock=clock) as bus:
        yield StandIn(bus, clock)


if __name__ == "__main__":
    for queue in (*QUEUES, *STRANGE):
        sys.stdout.write(create_command(parse_url(os.environ[REAL]), entity(queue)) + "\n")
