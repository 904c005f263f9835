"""Opening a database: what is wrong is said at once, in words that help, and without the password."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from onward import Onward
from onward.backend import Health, Inspection
from onward.backends.mysql import MySQLBackend, schema
from onward.backends.mysql.connection import unfit
from onward.errors import BackendMisconfigured, BackendUnavailable
from onward.testing.contract.builders import a_claim, an_envelope
from tests.servers.connecting import connected


def test_it_is_all_that_a_backend_can_be(backend):
    assert isinstance(backend, Inspection)
    assert isinstance(backend, Health)
    assert backend.capabilities.durable


@pytest.mark.parametrize("scheme", ["mysql", "mariadb"])
def test_an_application_is_opened_by_its_url(url, scheme):
    with Onward(url.replace("mysql", scheme, 1)) as jobs:
        assert jobs.counts()["available"] == 0


def test_without_its_driver_the_extra_is_named():
    program = """
import sys
sys.modules["pymysql"] = None
from onward import Onward
from onward.errors import BackendMisconfigured
try:
    Onward("mysql:///shop")
except BackendMisconfigured as error:
    print(error)
"""
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert "pip install 'onward[mysql]'" in output


def test_the_driver_is_loaded_only_by_those_who_use_it():
    program = "import sys, onward; jobs = onward.Onward('memory://'); print('pymysql' in sys.modules)"

    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert output.strip() == "False"


def test_a_session_goes_by_our_settings_whatever_the_servers_are(spare_server, open_backend):
    spare_server.restart(
        sql_mode="NO_BACKSLASH_ESCAPES,ANSI_QUOTES", transaction_isolation="SERIALIZABLE", autocommit=0
    )
    try:
        backend = open_backend(at=spare_server.url())
        with backend._connections.borrowed() as connection:
            (found,) = connection.send(b"SELECT @@sql_mode, @@tx_isolation, @@autocommit, @@innodb_lock_wait_timeout")

        assert found.rows[0][1:] == ("READ-COMMITTED", 1, 30)
        assert set(found.rows[0][0].split(",")) == {
            "STRICT_ALL_TABLES",
            "NO_ENGINE_SUBSTITUTION",
            "ERROR_FOR_DIVISION_BY_ZERO",
        }
        backend.enqueue([envelope := an_envelope(payload="it's a \\ here")])
        claimed = backend.claim(a_claim(limit=100))  # other tests may have left jobs on this server
        assert envelope.data in [lease.envelope.data for lease in claimed]
    finally:
        backend.close()
        spare_server.restart()


class TestWhatIsWrong:
    def test_a_server_that_is_not_there_may_come_back(self, tmp_path):
        with pytest.raises(BackendUnavailable, match="No such file"):
            connected(MySQLBackend.from_url(f"mysql://ann:s3cret@localhost/shop?unix_socket={tmp_path}/none"))

    def test_nor_has_a_port_without_a_server_to_be_named_otherwise(self):
        with pytest.raises(BackendUnavailable, match="refused"):
            connected(MySQLBackend.from_url("mysql://ann:s3cret@127.0.0.1:1/shop"))

    def test_a_database_that_is_not_there_has_to_be_named_otherwise(self, mariadb):
        with pytest.raises(BackendMisconfigured, match="Unknown database 'nowhere'"):
            connected(MySQLBackend.from_url(mariadb.url("nowhere")))

    def test_who_may_not_come_in_is_told_without_the_password(self, mariadb):
        with pytest.raises(BackendMisconfigured, match="Access denied for user 'ann'") as raised:
            connected(MySQLBackend.from_url(mariadb.url(user="ann:s3cret")))

        told = [str(raised.value), str(raised.value.__cause__), str(raised.value.__context__)]
        assert "s3cret" not in "".join(told)

    def test_who_may_not_make_the_tables_is_told(self, mariadb, sql, fresh_url):
        sql("CREATE OR REPLACE USER clerk@localhost")
        database = fresh_url.partition("localhost/")[2].partition("?")[0]
        sql(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO clerk@localhost")

        with pytest.raises(BackendMisconfigured, match=r"CREATE command denied.*run `onward migrate` as their owner"):
            connected(MySQLBackend.from_url(mariadb.url(database, user="clerk")))


def test_the_page_grants_a_worker_every_table():
    page = (Path(__file__).parents[3] / "docs" / "mysql.md").read_text()
    grants = re.findall(r"^GRANT (.*) ON shop\.(\w+) TO shop_worker;$", page, re.MULTILINE)
    granted = {table: rights for rights, table in grants}
    tables = {
        table
        for each in schema.known()
        for table in re.findall(r"^CREATE TABLE IF NOT EXISTS (onward_\w+)", each.sql, re.MULTILINE)
    }

    everything = "SELECT, INSERT, UPDATE, DELETE"
    assert len(tables) > 15
    assert granted == dict.fromkeys(tables, everything) | {
        "onward_migrations": "SELECT",
        "onward_stripes": "SELECT, UPDATE",  # they are written by the migration
    }


@pytest.mark.promise("F33")
class TestReadOnly:
    def test_a_server_that_is_read_only_is_refused(self, spare_server):
        spare_server.restart(read_only=1)
        try:
            with pytest.raises(BackendMisconfigured, match="read-only, a replica perhaps: name the primary"):
                connected(MySQLBackend.from_url(spare_server.url()))
        finally:
            spare_server.restart()

    def test_a_server_that_became_read_only_may_become_a_primary_again(self, spare_server, open_backend):
        backend = open_backend(at=spare_server.url())
        spare_server.restart(read_only=1)

        with pytest.raises(BackendUnavailable, match="read-only"):
            backend.enqueue([an_envelope()])

        spare_server.restart()
        assert backend.enqueue([an_envelope()])[0].created
        backend.close()


MARIADB = {"version": "10.6.1-MariaDB", "log_bin": "OFF"}
GALERA = {**MARIADB, "wsrep_on": "ON", "wsrep_cluster_size": "3"}


@pytest.mark.promise("F34")
class TestGalera:
    """There is none to be had here, so this is about what a node would say of itself."""

    def test_a_cluster_of_writers_is_refused_and_the_fix_is_named(self):
        assert "?writers=one" in unfit(GALERA, one_writer=False)

    def test_one_of_which_one_node_is_written_is_not(self):
        assert unfit(GALERA, one_writer=True) is None

    @pytest.mark.parametrize("said", [{**GALERA, "wsrep_cluster_size": "1"}, {**MARIADB, "wsrep_on": "OFF"}, MARIADB])
    def test_nor_is_a_single_node(self, said):
        assert unfit(said, one_writer=False) is None


@pytest.mark.parametrize(
    ("version", "fit"),
    [
        ("10.6.0-MariaDB-log", True),
        ("10.5.29-MariaDB", False),
        ("11.4.2-MariaDB-ubu2404", True),
        ("8.0.36", True),
        ("8.4.3-cluster", True),
        ("9.1.0", True),
        ("5.7.44-log", False),
    ],
)
def test_what_is_too_old_is_refused(version, fit):
    assert (unfit({"version": version}, one_writer=False) is None) is fit


def test_a_log_of_statements_is_refused():
    said = {**MARIADB, "log_bin": "ON", "binlog_format": "STATEMENT"}

    assert "ROW or MIXED" in unfit(said, one_writer=False)


@pytest.mark.promise("F43")
@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"innodb_flush_log_at_trx_commit": 2}, "innodb_flush_log_at_trx_commit=2"),
        ({"log_bin": "binlog", "sync_binlog": 0}, "sync_binlog=0"),
    ],
)
def test_a_server_that_does_not_wait_for_the_disk_is_not_durable(spare_server, open_backend, settings, word):
    spare_server.restart(**settings)
    try:
        backend = open_backend(at=spare_server.url())

        (check,) = [check for check in backend.health() if check.name == "durability"]
        assert not backend.capabilities.durable
        assert (check.status, word in check.detail) == ("warn", True)
    finally:
        backend.close()
        spare_server.restart()


def test_over_a_network_it_is_the_same(spare_server, open_backend):
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    spare_server.restart(skip_networking=0, bind_address="127.0.0.1", port=port)
    try:
        backend = open_backend(at=f"mysql://onward@127.0.0.1:{port}/jobs")

        assert backend.enqueue([an_envelope()])[0].created
        assert len(backend.claim(a_claim(limit=100))) > 0
    finally:
        backend.close()
        spare_server.restart()
