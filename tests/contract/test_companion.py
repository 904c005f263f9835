"""A broker with a store beside it keeps the contract, but for what the two together declare that they cannot."""

import shutil
import sqlite3
from contextlib import ExitStack, closing

import pytest

from onward.backends.beanstalk import BeanstalkBackend
from onward.backends.companion import AccompaniedBackend
from onward.backends.sqlite import SqliteBackend
from onward.testing.contract import BackendContract
from onward.testing.contract.adoption import AdoptionContract
from onward.testing.contract.fencing import FencingContract
from onward.testing.contract.holds import HoldsContract
from onward.testing.contract.pausing import PausingContract
from onward.testing.contract.replaying import ReplayContract
from onward.testing.contract.settling import FatesContract
from onward.testing.contract.suspects import SuspectsContract
from onward.testing.contract.waiters import WaitersContract
from tests.servers.beanstalkd import ServerClock, beanstalkd_server
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


class TestBeanstalkdWithSqlite(Accompanied, BackendContract):
    @pytest.fixture
    def file(self, empty_file, tmp_path):
        return shutil.copy(empty_file, tmp_path / "jobs.db")

    @pytest.fixture
    def open_store(self, file, clock):
        with ExitStack() as stores:
            yield lambda: stores.enter_context(closing(SqliteBackend.open(file, clock=clock, durability="relaxed")))

    @pytest.fixture
    def lose_session(self, file):
        def lose(owner):
            with closing(sqlite3.connect(file, isolation_level=None)) as connection:
                connection.execute("DELETE FROM onward_sessions WHERE owner = ?", (owner,))

        return lose


class Asked(
    FatesContract,
    FencingContract,
    AdoptionContract,
    HoldsContract,
    WaitersContract,
    SuspectsContract,
    PausingContract,
    ReplayContract,
):
    """What a store does beside a broker that it does not do alone: hand out jobs by their ids."""

    _skip_what_is_missing = BackendContract._skip_what_is_missing
    lose_session = BackendContract.lose_session


@pytest.fixture(scope="module")
def clients(newest_postgres):
    with closing(WarmClients(newest_postgres.url())) as clients:
        yield clients


class TestBeanstalkdWithPostgres(Accompanied, Asked):
    @pytest.fixture
    def open_store(self, newest_postgres, clients, clock):
        emptied(newest_postgres)
        with clients.lent(clock) as open_store:
            yield open_store
