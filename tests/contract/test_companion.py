"""A broker with a store beside it keeps the contract, but for what the two together declare that they cannot."""

import shutil
from contextlib import ExitStack, closing

import pytest

from onward.backends.beanstalk import BeanstalkBackend
from onward.backends.companion import AccompaniedBackend
from onward.backends.sqlite import SqliteBackend
from onward.testing.contract import BackendContract
from onward.testing.contract.adoption import AdoptionContract, LostRepliesContract
from onward.testing.contract.arrows import ArrowsContract
from onward.testing.contract.batches import TurnsContract
from onward.testing.contract.booking import BookingContract, TakingBackContract
from onward.testing.contract.cancelling import CancellingContract, ExpiryContract
from onward.testing.contract.claiming import ClaimingContract, LeasesContract, OrderContract, PromotionContract
from onward.testing.contract.clocks import ClocksContract
from onward.testing.contract.durability import DurabilityContract
from onward.testing.contract.enqueueing import DueContract, EnqueueingContract, RefusedContract, RetriedEnqueueContract
from onward.testing.contract.flow_changes import FlowRetentionContract, FlowSteeringContract
from onward.testing.contract.flow_ends import FlowEndsContract
from onward.testing.contract.flow_growing import GrowingContract
from onward.testing.contract.flow_rules import FlowRulesContract
from onward.testing.contract.flows import FlowsContract
from onward.testing.contract.holds import ConfirmedContract, HoldsContract, TwoHoldsContract
from onward.testing.contract.inspection import RunNowContract
from onward.testing.contract.notes import NotesContract
from onward.testing.contract.pausing import PausingContract
from onward.testing.contract.reaping import CrashesContract, InterruptionsContract, ReapedContract
from onward.testing.contract.records import DeadLetterContract
from onward.testing.contract.replaying import ReplayContract, SkippedReplayContract
from onward.testing.contract.sessions import DeadSessionsContract, SessionsContract, SweepsContract
from onward.testing.contract.signals import SignalsContract, WaitingForSignalsContract
from onward.testing.contract.suspects import SuspectsContract
from onward.testing.contract.waiters import WaitersContract
from onward.testing.contract.waiting import WaitingContract
from tests.servers.beanstalkd import ServerClock, beanstalkd_server
from tests.servers.servicebus import Clients, namespace
from tests.servers.stores import WarmClients, emptied


@pytest.fixture(scope="module")
def server():
    with beanstalkd_server(fake_time=True) as server:
        yield server


@pytest.fixture(scope="module")
def empty_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("empty") / "jobs.db"
    SqliteBackend.open(path).close()
    return path


class Accompanied:
    """The broker is shared, and emptied before each test."""

    @pytest.fixture
    def clock(self, server):
        server.empty()
        with closing(ServerClock(server)) as clock:
            yield clock

    @pytest.fixture
    def open_client(self, server, clock, open_store):
        with ExitStack() as clients:

            def open_client():
                broker = clients.enter_context(closing(BeanstalkBackend.from_url(server.url(), clock=clock)))
                pair = AccompaniedBackend(broker, open_store(), clock=clock)  # whose store others use after it
                clients.callback(pair._deliveries.close)
                return pair

            yield open_client

    @pytest.fixture
    def backend(self, open_client):
        return open_client()


class Shared(
    ArrowsContract,
    EnqueueingContract,
    RetriedEnqueueContract,
    DueContract,
    RefusedContract,
    ClaimingContract,
    OrderContract,
    PromotionContract,
    LeasesContract,
    DeadLetterContract,
    SessionsContract,
    DeadSessionsContract,
    SweepsContract,
    ReapedContract,
    CrashesContract,
    InterruptionsContract,
    SuspectsContract,
    AdoptionContract,
    LostRepliesContract,
    HoldsContract,
    ConfirmedContract,
    TwoHoldsContract,
    WaitersContract,
    CancellingContract,
    ExpiryContract,
    RunNowContract,
    ReplayContract,
    SkippedReplayContract,
    PausingContract,
    TurnsContract,
    ClocksContract,
    DurabilityContract,
    WaitingContract,
    BookingContract,
    TakingBackContract,
    NotesContract,
    SignalsContract,
    WaitingForSignalsContract,
    FlowsContract,
    FlowEndsContract,
    FlowRulesContract,
    GrowingContract,
    FlowSteeringContract,
    FlowRetentionContract,
):
    """The topics in which both have a part.  In the others only the store is asked: they are its own suite's."""

    _skip_what_is_missing = BackendContract._skip_what_is_missing
    lose_session = BackendContract.lose_session
    # What the store refuses the broker never hears of.
    test_an_arrow_missing_from_the_table_changes_nothing = None
    test_a_large_batch_is_settled_and_claimed_in_one_turn = None
    test_thousands_of_envelopes_fit_into_one_call = None
    test_hundreds_of_crashes_do_not_overflow = None


class TestBeanstalkdWithSqlite(Accompanied, Shared):
    @pytest.fixture
    def open_store(self, empty_file, tmp_path, clock):
        file = shutil.copy(empty_file, tmp_path / "jobs.db")
        with ExitStack() as stores:
            yield lambda: stores.enter_context(closing(SqliteBackend.open(file, clock=clock, durability="relaxed")))


@pytest.fixture(scope="module")
def clients(newest_postgres):
    with closing(WarmClients(newest_postgres.url())) as clients:
        yield clients


class TestBeanstalkdWithPostgres(
    Accompanied,
    LostRepliesContract,
    TwoHoldsContract,
    SuspectsContract,
    PausingContract,
    ReplayContract,
    RunNowContract,
    FlowEndsContract,
    GrowingContract,
):
    """A few topics: the store is another, the rest is the same."""

    _skip_what_is_missing = BackendContract._skip_what_is_missing

    @pytest.fixture
    def open_store(self, newest_postgres, clients, clock):
        emptied(newest_postgres)
        with clients.lent(clock) as open_store:
            yield open_store


@pytest.fixture(scope="module")
def bus():
    with namespace() as server:
        yield server


@pytest.fixture(scope="module")
def bus_clients(bus):
    clients = Clients(bus.url)
    clients.warm(1, ["default", "a", "b", "c"])
    yield clients
    clients.close()


class TestServiceBusWithSqlite(GrowingContract, FlowEndsContract):
    """What a flow opens, and what is added to it, gets its message here, too; the rest is the same as above."""

    _skip_what_is_missing = BackendContract._skip_what_is_missing

    @pytest.fixture
    def clock(self, bus):
        bus.empty()
        return bus.clock

    @pytest.fixture
    def open_client(self, bus_clients, clock, empty_file, tmp_path):
        file = shutil.copy(empty_file, tmp_path / "jobs.db")
        with bus_clients.lent(clock) as open_broker, ExitStack() as stores:

            def open_client():
                store = stores.enter_context(closing(SqliteBackend.open(file, clock=clock, durability="relaxed")))
                pair = AccompaniedBackend(open_broker(), store, clock=clock)
                stores.callback(pair._deliveries.close)
                return pair

            yield open_client

    @pytest.fixture
    def backend(self, open_client):
        return open_client()
