"""Opening a file: what is created, what is refused, what the options do."""

import logging
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from onward import Onward
from onward.backends.sqlite import SqliteBackend, library
from onward.backends.sqlite.url import parse_url
from onward.errors import BackendError, BackendMisconfigured, InvalidName
from onward.testing.contract.builders import a_claim, a_lease, a_session, a_turn, an_envelope, ids, some_envelopes


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


class TestTheFile:
    @pytest.mark.promise("CVE-2022-38170")
    def test_it_is_created_for_its_owner_only(self, backend, file):
        backend.enqueue([an_envelope()])

        beside = sorted(path.name for path in file.parent.iterdir())
        assert beside == ["jobs.db", "jobs.db-shm", "jobs.db-wake", "jobs.db-wal"]
        assert {mode_of(path) for path in file.parent.iterdir()} == {0o600}

    def test_the_permissions_of_a_file_that_exists_stay(self, open_backend, file):
        file.touch()
        file.chmod(0o660)

        open_backend().enqueue([an_envelope()])

        assert mode_of(file) == 0o660

    def test_jobs_are_still_there_after_opening_it_again(self, open_backend):
        envelopes = some_envelopes(3)
        first = open_backend()
        first.enqueue(envelopes)
        first.close()

        leases = open_backend().claim(a_claim(limit=10))

        assert ids(leases) == ids(envelopes)

    def test_a_relative_path_means_the_same_after_a_change_of_folder(self, open_backend, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        backend = open_backend("relative.db")
        monkeypatch.chdir("/")

        backend._connections.writer.close()
        backend.enqueue([an_envelope()])

        assert (tmp_path / "relative.db").exists()

    def test_it_can_live_beside_the_tables_of_an_application(self, open_backend, file):
        with closing(sqlite3.connect(file)) as application, application:
            application.execute("CREATE TABLE users (name TEXT)")

        open_backend().enqueue([an_envelope()])

        with closing(sqlite3.connect(file)) as application:
            assert application.execute("SELECT count(*) FROM users").fetchone() == (0,)

    @pytest.mark.parametrize("path", [":memory:", ""])
    def test_a_database_in_memory_is_refused(self, path):
        with pytest.raises(BackendMisconfigured, match="memory://"):
            SqliteBackend.open(path)

    def test_a_folder_that_does_not_exist_is_named(self, tmp_path):
        with pytest.raises(BackendMisconfigured, match=r"the folder .*/nowhere does not exist: create it"):
            SqliteBackend.open(tmp_path / "nowhere" / "jobs.db")

    def test_a_folder_in_its_place_is_refused(self, tmp_path):
        with pytest.raises(BackendMisconfigured, match=str(tmp_path)):
            SqliteBackend.open(tmp_path)

    def test_many_processes_may_be_the_first(self, start, file):
        program = """
            import sys
            from onward.backends.sqlite import SqliteBackend
            from onward.testing.contract.builders import an_envelope

            sys.stdin.readline()
            SqliteBackend.open(sys.argv[1]).enqueue([an_envelope()])
        """
        processes = [start(program) for _ in range(4)]
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()

        assert [process.wait(60) for process in processes] == [0] * 4
        with closing(SqliteBackend.open(file)) as backend:
            assert backend.counts()["available"] == 4


class TestSettings:
    def pragma(self, backend, name):
        with backend._connections.tidying() as connection:
            return connection.execute(f"PRAGMA {name}").fetchone()[0]

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("journal_mode", "wal"),
            ("synchronous", 2),
            ("mmap_size", 0),
            ("auto_vacuum", 2),
            ("journal_size_limit", 64 * 1024 * 1024),
            ("busy_timeout", 0),
        ],
    )
    def test_a_new_file_is_durable_and_keeps_itself_small(self, backend, name, value):
        assert self.pragma(backend, name) == value

    def test_an_enqueue_that_returned_is_durable(self, backend):
        assert backend.capabilities.durable

    def test_relaxed_durability_is_declared(self, open_backend):
        relaxed = open_backend(durability="relaxed")

        assert not relaxed.capabilities.durable
        assert self.pragma(relaxed, "synchronous") == 1

    def test_another_durability_is_refused(self, open_backend):
        with pytest.raises(BackendMisconfigured, match="'full' or 'relaxed'"):
            open_backend(durability="yes")


class TestUrls:
    @pytest.mark.parametrize(
        ("url", "path", "options"),
        [
            ("sqlite:///jobs.db", "jobs.db", {}),
            ("sqlite:///data/jobs.db", "data/jobs.db", {}),
            ("sqlite:////srv/jobs.db", "/srv/jobs.db", {}),
            ("sqlite:///my%20jobs.db", "my jobs.db", {}),
            (
                "sqlite:///a.db?durability=relaxed&busy_timeout=10",
                "a.db",
                {"durability": "relaxed", "busy_timeout": 10.0},
            ),
        ],
    )
    def test_a_url_names_a_path_and_options(self, url, path, options):
        assert parse_url(url) == (path, options)

    def test_an_option_that_does_not_exist_names_those_that_do(self):
        with pytest.raises(BackendMisconfigured, match="no option 'durable'; the options are busy_timeout, durability"):
            parse_url("sqlite:///jobs.db?durable=yes")

    @pytest.mark.parametrize(
        "url",
        [
            "sqlite://",
            "sqlite:///",
            "sqlite://jobs.db",
            "sqlite:///a.db?busy_timeout=long",
            "sqlite:///a.db?busy_timeout=nan",
        ],
    )
    def test_what_names_no_file_or_no_number_is_refused(self, url):
        with pytest.raises(BackendMisconfigured):
            parse_url(url)

    def test_a_url_opens_a_backend(self, file, clock):
        with closing(SqliteBackend.from_url(f"sqlite:///{file}?durability=relaxed", clock=clock)) as backend:
            assert backend.enqueue([an_envelope()])[0].created
            assert not backend.capabilities.durable


class TestNamespaces:
    def test_two_namespaces_share_a_file_and_nothing_else(self, open_backend, file):
        mine, theirs = open_backend(), open_backend(namespace="theirs")
        lease = a_lease(mine)
        theirs.enqueue([an_envelope(id=lease.envelope.id, unique_key="k")])

        assert ids(theirs.claim(a_claim())) == [lease.envelope.id]
        assert mine.ack(lease).applied
        assert theirs.counts()["executing"] == 1
        assert mine.pause("default")
        assert not theirs.queues()[0].paused

    def test_each_has_its_own_wake_up(self, open_backend, file):
        open_backend(namespace="theirs").enqueue([an_envelope()])

        assert (file.parent / "jobs.db-wake-theirs").is_fifo()

    @pytest.mark.parametrize("namespace", ["", "Mine", "a-b", "x" * 41, 'x"; DROP TABLE onward_jobs; --'])
    def test_a_name_that_is_not_plain_is_refused(self, open_backend, namespace):
        with pytest.raises(InvalidName):
            open_backend(namespace=namespace)


class TestTheLibrary:
    def test_one_that_is_too_old_is_refused(self):
        with pytest.raises(BackendMisconfigured, match=r"3\.34\.1 is too old, 3\.38\.0 or newer is needed"):
            library.complaint((3, 34, 1))

    @pytest.mark.promise("F50")
    def test_one_with_the_log_reset_bug_is_named_to_those_who_ask_and_not_in_the_log(
        self, monkeypatch, caplog, open_backend
    ):
        monkeypatch.setattr(library.sqlite3, "sqlite_version_info", (3, 51, 2))

        with caplog.at_level(logging.DEBUG, "onward"):
            backend = open_backend()

        assert caplog.records == []
        (advice,) = backend.advice()
        assert advice.startswith("SQLite 3.51.2 has the WAL-reset bug, fixed in 3.51.3: ")
        assert "a newer release of the distribution" in advice
        (check,) = [check for check in backend.health() if check.name == "library"]
        assert (check.status, check.detail) == ("warn", advice)

    @pytest.mark.promise("F50")
    def test_one_that_is_sound_is_not_mentioned(self):
        assert library.complaint((3, 51, 3)) is None

    def test_one_that_is_sound_needs_no_advice(self, monkeypatch, open_backend):
        monkeypatch.setattr(library.sqlite3, "sqlite_version_info", (3, 51, 3))

        assert open_backend().advice() == []


VERBS = {
    "enqueue": lambda backend: backend.enqueue([an_envelope()]),
    "open_session": lambda backend: backend.open_session(a_session()),
    "turn": lambda backend: backend.turn(a_turn(claim=a_claim())),
    "get": lambda backend: backend.get("x"),
    "reap": lambda backend: backend.reap(),
}


class TestClosing:
    @pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
    def test_a_closed_backend_says_so(self, backend, verb):
        backend.close()

        with pytest.raises(BackendError, match="this backend is closed"):
            verb(backend)

    def test_closing_twice_is_harmless(self, backend):
        backend.close()
        backend.close()

    def test_a_wait_ends_when_its_backend_is_closed(self, backend):
        backend.close()

        backend.wait(["default"], 60)

    def test_no_file_stays_open(self, open_backend, file):
        backend = open_backend()
        backend.enqueue([an_envelope()])
        backend.get("x")

        backend.close()

        opened = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
        assert not [path for path in opened if path.startswith(str(file))]


@pytest.mark.parametrize("url", ["sqlite:///file:jobs.db", "sqlite:///file:memorydb_default?mode=memory&cache=shared"])
def test_a_uri_of_sqlites_own_is_refused_with_the_fix(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(BackendMisconfigured, match=r"write the path itself, sqlite:///jobs\.db.*memory://"):
        Onward(url)

    assert list(tmp_path.iterdir()) == []
