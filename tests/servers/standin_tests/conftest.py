"""A stand-in for every module, and the SDK in both its colours behind one face."""

import asyncio
import gc
import inspect
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient

from onward.testing import FakeClock
from tests.servers.servicebus_standin import QueueOptions, ServiceBusStandin

LOCK = 30
MOST_DELIVERIES = 3


@pytest.fixture(scope="module", autouse=True)
def sockets_of_the_sdk():
    """Collect the sockets that the SDK forgets when a connection is cut or refused: here, and not in another test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def clock():
    return FakeClock()


@pytest.fixture(scope="module")
def shared_bus(clock):
    options = QueueOptions(lock_duration=LOCK, max_delivery_count=MOST_DELIVERIES)
    with ServiceBusStandin({"mail": options}, clock=clock) as bus:
        yield bus


@pytest.fixture
def bus(shared_bus):
    """The module's stand-in, empty."""
    shared_bus.clear()
    return shared_bus


class Awaited:
    """An object of the SDK whose coroutines are run to their end, so that a test reads alike for both clients."""

    def __init__(self, wrapped, run):
        self._wrapped = wrapped
        self._run = run

    def __getattr__(self, name):
        attribute = getattr(self._wrapped, name)
        if not callable(attribute):
            return attribute

        def call(*args, **kwargs):
            result = attribute(*args, **kwargs)
            return self._run(result) if inspect.isawaitable(result) else result

        return call


class Links:
    """A client with a sender, a receiver, and a receiver of dead letters, on the queue ``mail``."""

    def __init__(self, client, open_all):
        self._client = client
        self._open_all = open_all
        self.sender, self.receiver, self.dead = open_all(
            client.get_queue_sender("mail"),
            client.get_queue_receiver("mail"),
            client.get_queue_receiver("mail", sub_queue=ServiceBusSubQueue.DEAD_LETTER),
        )

    def open_receivers(self, queue, count=1, **options):
        return self._open_all(*[self._client.get_queue_receiver(queue, **options) for _ in range(count)])

    def open_sender(self, queue):
        (sender,) = self._open_all(self._client.get_queue_sender(queue))
        return sender


# Opening or closing a link takes the SDK half a second, whatever is at the other end.  So links are shared, and many are
# opened or closed at once.
@pytest.fixture(scope="module", params=["sync", "async"])
def sdk(request, shared_bus):
    yield from (_sync if request.param == "sync" else _async)(shared_bus.connection_string)


def _sync(connection_string):
    opened = []
    with (
        ThreadPoolExecutor(20) as threads,
        ServiceBusClient.from_connection_string(connection_string, retry_total=0) as client,
    ):

        def open_all(*links):
            opened.extend(links)
            return list(threads.map(lambda link: link.__enter__(), links))

        yield Links(client, open_all)
        list(threads.map(lambda link: link.close(), opened))


def _async(connection_string):
    opened = []
    with asyncio.Runner() as runner:

        async def each(method, links):
            return await asyncio.gather(*[getattr(link, method)() for link in links])

        def open_all(*links):
            opened.extend(links)
            return [Awaited(link, runner.run) for link in runner.run(each("__aenter__", links))]

        client = AsyncServiceBusClient.from_connection_string(connection_string, retry_total=0)
        yield Links(client, open_all)
        runner.run(each("close", opened))
        runner.run(client.close())
