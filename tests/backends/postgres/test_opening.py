"""Opening a database: what is wrong is said at once, in words that help, and without the password."""

import subprocess
import sys

import psycopg
import pytest

from onward import Onward
from onward.backend import Health, Inspection
from onward.backends.postgres import PostgresBackend
from onward.errors import BackendMisconfigured, BackendUnavailable
from onward.testing.contract.builders import an_envelope
from tests.servers.connecting import connected
from tests.servers.postgres import postgres_server


@pytest.fixture
def own_server(postgres):
    """A server that a test may spoil."""
    with postgres_server(postgres.version) as server:
        yield server


def settings_of(backend):
    with backend._connections.borrowed() as connection:
        return lambda name: connection.execute(f"SHOW {name}").fetchone()[0]


def test_it_is_all_that_a_backend_can_be(backend):
    assert isinstance(backend, Inspection)
    assert isinstance(backend, Health)
    assert backend.capabilities.durable


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_an_application_is_opened_by_its_url(url, scheme):
    with Onward(url.replace("postgresql", scheme, 1)) as jobs:
        assert jobs.counts()["available"] == 0


def test_without_its_driver_the_extra_is_named():
    program = """
import sys
sys.modules["psycopg"] = None
from onward import Onward
from onward.errors import BackendMisconfigured
try:
    Onward("postgresql:///shop")
except BackendMisconfigured as error:
    print(error)
"""
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert "pip install 'onward[postgres]'" in output


def test_the_driver_is_loaded_only_by_those_who_use_it():
    program = "import sys, onward; jobs = onward.Onward('memory://'); print('psycopg' in sys.modules)"

    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert output.strip() == "False"


class TestWhatIsWrong:
    def test_a_server_that_is_not_there_may_come_back(self, tmp_path):
        with pytest.raises(BackendUnavailable, match="No such file"):
            connected(PostgresBackend.from_url(f"postgresql://ann:secret@/shop?host={tmp_path}"))

    def test_a_database_that_is_not_there_has_to_be_named_otherwise(self, postgres):
        with pytest.raises(BackendMisconfigured, match='"nowhere" does not exist'):
            connected(PostgresBackend.from_url(postgres.url("nowhere")))

    def test_a_user_that_is_not_there_has_to_be_named_otherwise(self, postgres):
        with pytest.raises(BackendMisconfigured, match='"ann" does not exist'):
            connected(PostgresBackend.from_url(postgres.url().replace("onward@", "ann:secret@")))

    def test_an_unknown_option_is_refused(self, postgres):
        with pytest.raises(BackendMisconfigured, match="invalid URI query parameter"):
            connected(PostgresBackend.from_url(postgres.url(pool_sise=3)))

    @pytest.mark.parametrize(
        "rest", ["@/nowhere?host={folder}", "@/x?host={folder}/nothing", "@/x?host={folder}&nonsense=1"]
    )
    def test_no_error_tells_the_password(self, postgres, rest):
        url = f"postgresql://ann:s3cret{rest.format(folder=postgres.folder)}"

        with pytest.raises((BackendMisconfigured, BackendUnavailable)) as raised:
            connected(PostgresBackend.from_url(url))

        told = [str(raised.value), str(raised.value.__cause__), str(raised.value.__context__)]
        assert "s3cret" not in "".join(told)


@pytest.mark.promise("F33")
class TestStandby:
    @pytest.fixture
    def standby(self, own_server):
        def make():
            own_server.stop(how=2)
            (own_server.folder / "data" / "standby.signal").touch()
            own_server.start()

        return make

    def test_a_standby_is_refused(self, own_server, standby):
        connected(PostgresBackend.from_url(own_server.url())).close()
        standby()

        with pytest.raises(BackendMisconfigured, match="this is a standby, which cannot be written"):
            connected(PostgresBackend.from_url(own_server.url()))

    def test_a_server_that_became_a_standby_may_become_a_primary_again(self, own_server, standby, open_backend):
        backend = open_backend(at=own_server.url())
        standby()

        with pytest.raises(BackendUnavailable, match="this is a standby"):
            backend.enqueue([an_envelope()])

        with psycopg.connect(own_server.url(), autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")
        assert backend.enqueue([an_envelope()])[0].created

    def test_a_database_that_may_only_be_read_is_refused_with_the_setting(self, fresh_url):
        with psycopg.connect(fresh_url, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {connection.info.dbname} SET default_transaction_read_only = on")

        with pytest.raises(BackendMisconfigured, match=r"default_transaction_read_only is on, .*turn it off for this"):
            connected(PostgresBackend.from_url(fresh_url))

    def test_one_that_is_closed_for_a_while_is_away_for_a_while(self, fresh_url, open_backend, sql):
        backend = open_backend(at=fresh_url)
        with psycopg.connect(fresh_url, autocommit=True) as connection:
            name = connection.info.dbname
            connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
            connection.execute(
                "SELECT pg_terminate_backend(pid, 9000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

            with pytest.raises(BackendUnavailable, match="default_transaction_read_only"):
                backend.enqueue([an_envelope()])

            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = off")
        assert backend.enqueue([an_envelope()])[0].created


@pytest.mark.promise("F43")
class TestDurability:
    def test_what_a_database_has_turned_off_is_turned_on_for_us(self, fresh_url, open_backend):
        with psycopg.connect(fresh_url, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {connection.info.dbname} SET synchronous_commit = off")

        backend = open_backend(at=fresh_url)

        assert settings_of(backend)("synchronous_commit") == "on"
        assert backend.capabilities.durable

    def test_behind_a_pooler_that_cannot_be_and_is_said(self, fresh_url, open_backend):
        with psycopg.connect(fresh_url, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {connection.info.dbname} SET synchronous_commit = off")

        backend = open_backend(at=f"{fresh_url}&pooler=transaction")

        (check,) = [check for check in backend.health() if check.name == "durability"]
        assert not backend.capabilities.durable
        assert (check.status, check.detail.split(":")[0]) == ("warn", "synchronous_commit=off")

    def test_relaxed_is_asked_for_and_said(self, url, open_backend):
        backend = open_backend(at=f"{url}&durability=relaxed")

        (check,) = [check for check in backend.health() if check.name == "durability"]
        assert not backend.capabilities.durable
        assert settings_of(backend)("synchronous_commit") == "off"
        assert check.status == "warn"

    def test_a_server_that_does_not_sync_is_not_durable(self, own_server, open_backend):
        own_server.restart(fsync="off")

        backend = open_backend(at=own_server.url())

        (check,) = [check for check in backend.health() if check.name == "durability"]
        assert not backend.capabilities.durable
        assert (check.status, "fsync=off" in check.detail) == ("fail", True)

    def test_what_a_server_does_not_do_is_still_asked_of_it(self, own_server, open_backend):
        own_server.restart(fsync="off")
        backend = open_backend(at=own_server.url())

        with backend._connections.borrowed():  # so that another one has to be opened
            assert settings_of(backend)("synchronous_commit") == "on"


def test_a_database_that_isolates_more_changes_nothing_for_us(fresh_url, open_backend):
    with psycopg.connect(fresh_url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET default_transaction_isolation = serializable")

    backend = open_backend(at=fresh_url)

    assert settings_of(backend)("transaction_isolation") == "read committed"


def test_settings_of_the_url_come_last(url, open_backend):
    backend = open_backend(at=f"{url}&options=-c%20lock_timeout%3D5s%20-c%20search_path%3Dpublic&application_name=shop")

    assert settings_of(backend)("lock_timeout") == "5s"
    assert settings_of(backend)("application_name") == "shop"
