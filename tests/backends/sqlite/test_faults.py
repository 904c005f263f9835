"""What goes wrong with a file, in Onward's words: nothing of the driver's gets out, nothing is half-written."""

import os
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from onward.backend import Settlement
from onward.backends.sqlite import SqliteBackend, connection, errors
from onward.errors import (
    BackendError,
    BackendMisconfigured,
    BackendRefused,
    BackendUnavailable,
    BackendUnreachable,
    StoreCorrupt,
    StoreFull,
)
from onward.testing.contract.builders import a_claim, a_lease, a_turn, an_envelope, some_envelopes


def sql(file, *statements):
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def write_lock(backend, file):
    """Another connection holds the write lock for as long as this test runs."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@pytest.fixture
def public_folder():
    # The folders of pytest are closed to other users.
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


class TestBusy:
    @pytest.mark.promise("F47")
    def test_past_the_bound_the_store_is_unavailable_and_the_way_out_is_named(self, write_lock, open_backend):
        impatient = open_backend(busy_timeout=0.05)

        with pytest.raises(BackendUnavailable, match="raise busy_timeout"):
            impatient.enqueue([an_envelope()])

    def test_looking_needs_no_lock(self, write_lock, backend):
        assert backend.counts()["available"] == 0

    def test_a_turn_with_nothing_to_do_needs_no_lock(self, backend, file):
        backend.claim(a_claim())
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")

            result = backend.turn(a_turn(claim=a_claim()))

        assert result.alive
        assert result.leases == []

    @pytest.mark.promise("F47")
    def test_a_lock_that_is_given_back_in_time_is_not_noticed(self, backend, start, monkeypatch):
        holder = start(
            """
            import sqlite3, sys
            connection = sqlite3.connect(sys.argv[1], isolation_level=None)
            connection.execute("BEGIN IMMEDIATE")
            print("locked", flush=True)
            sys.stdin.readline()
            connection.execute("COMMIT")
            """
        )
        assert holder.stdout.readline() == "locked\n"
        pauses = []

        def sleep(seconds):
            pauses.append(seconds)
            if len(pauses) == 5:
                print("enough", file=holder.stdin, flush=True)
            time.sleep(seconds)

        monkeypatch.setattr(connection, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))

        assert backend.enqueue([an_envelope()])[0].created
        assert len(pauses) >= 5


class TestFull:
    @pytest.mark.promise("F52")
    def test_a_full_disk_keeps_nothing_of_the_call_and_work_goes_on_with_room(self, run):
        output = run(
            """
            import resource, signal, sys
            from onward.backend import Settlement
            from onward.backends.sqlite import SqliteBackend
            from onward.backends.sqlite.health import wal_size
            from onward.errors import BackendUnavailable
            from onward.testing.contract.builders import a_claim, some_envelopes
            from pathlib import Path

            file = Path(sys.argv[1])
            backend = SqliteBackend.open(file)
            backend.enqueue(some_envelopes(100))
            leases = backend.claim(a_claim(limit=100))

            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (max(file.stat().st_size, wal_size(file)) + 20_000, hard))
            batch, stored = some_envelopes(50), 100
            try:
                while True:
                    backend.enqueue(batch)
                    batch, stored = some_envelopes(50), stored + 50
            except BackendUnavailable as error:
                print(type(error).__name__)
            assert sum(backend.counts().values()) == stored
            try:
                while leases:
                    backend.settle([Settlement.ack(lease, b"0" * 9_000) for lease in leases[:10]])
                    leases = leases[10:]
            except BackendUnavailable:
                pass
            executing = backend.counts()["executing"]
            assert executing == len(leases) > 0, (executing, len(leases))

            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            assert all(each.created for each in backend.enqueue(batch, retried=True))
            assert all(backend.ack(lease).applied for lease in leases)
            assert sum(backend.counts().values()) == stored + 50
            backend.close()
            """
        )

        assert output in ("StoreFull\n", "BackendUnavailable\n")

    @pytest.mark.promise("F52")
    def test_no_room_in_the_file_is_a_full_store(self, backend):
        leases = [a_lease(backend) for _ in range(3)]
        with backend._connections.tidying() as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages}")

        with pytest.raises(StoreFull, match="make room and try again"):
            backend.enqueue(some_envelopes(500))
        with pytest.raises(StoreFull):
            backend.settle([Settlement.ack(leases[0]), *(Settlement.ack(lease, b"0" * 50_000) for lease in leases[1:])])

        assert backend.counts()["executing"] == 3
        assert backend.counts()["available"] == 0
        with backend._connections.tidying() as connection:
            connection.execute("PRAGMA max_page_count = 100000")
        assert len(backend.enqueue(some_envelopes(500))) == 500
        assert all(answer.applied for answer in backend.settle([Settlement.ack(lease) for lease in leases]))

    @pytest.mark.promise("F52")
    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
    def test_a_small_disk_fills_up_and_is_emptied(self, run, tmp_path):
        disk = tmp_path / "disk"
        disk.mkdir()
        mounted = os.system(f"mount -t tmpfs -o size=1m tmpfs {disk} 2>/dev/null")
        if mounted != 0:
            pytest.skip("mounting is not allowed here")
        try:
            output = run(
                """
                import sys
                from pathlib import Path
                from onward.backends.sqlite import SqliteBackend
                from onward.errors import StoreFull
                from onward.testing.contract.builders import some_envelopes

                backend = SqliteBackend.open(sys.argv[2] + "/jobs.db")
                Path(sys.argv[2], "ballast").write_bytes(b"0" * 500_000)
                stored = 0
                try:
                    while True:
                        stored += len(backend.enqueue(some_envelopes(20)))
                except StoreFull as error:
                    print(type(error).__name__)
                assert backend.counts()["available"] == stored > 0
                Path(sys.argv[2], "ballast").unlink()
                backend.enqueue(some_envelopes(20))
                assert backend.counts()["available"] == stored + 20
                backend.close()
                """,
                disk,
            )
        finally:
            os.system(f"umount {disk}")

        assert output == "StoreFull\n"


class TestTheFile:
    def test_a_damaged_file_is_left_as_it_is(self, open_backend, file):
        backend = open_backend()
        backend.enqueue(some_envelopes(200))
        backend.close()
        damaged = bytearray(file.read_bytes())
        damaged[100:4096] = os.urandom(3996)
        file.write_bytes(damaged)

        with pytest.raises(StoreCorrupt, match=r"the file was not changed; restore a backup"):
            open_backend()

        assert file.read_bytes() == damaged

    def test_something_else_is_left_as_it_is(self, open_backend, file):
        file.write_bytes(b"These are not the jobs you are looking for.\n" * 100)

        with pytest.raises(StoreCorrupt, match="file is not a database"):
            open_backend()

        assert file.read_bytes().startswith(b"These are not")

    def test_a_file_that_vanishes_while_it_is_being_opened_is_missed(self, backend, file, monkeypatch):
        def vanish(opened):
            only_read(opened)
            file.unlink()

        only_read = connection._only_read
        monkeypatch.setattr(connection, "_only_read", vanish)
        backend.counts()

        with pytest.raises(BackendMisconfigured, match="the file is gone"):
            backend.counts()

    def test_a_file_that_vanished_takes_no_jobs_and_does_not_come_back_empty(self, backend, file):
        backend.enqueue([an_envelope()])
        file.unlink()

        for act in (lambda: backend.enqueue([an_envelope()]), backend.counts):
            with pytest.raises(BackendMisconfigured, match="the file is gone"):
                act()

        assert not file.exists()

    def test_a_file_that_was_replaced_is_opened_anew(self, backend, file, open_backend, tmp_path):
        backend.enqueue([an_envelope()])
        restored = open_backend(tmp_path / "backup.db")
        restored.enqueue(some_envelopes(2))
        restored.close()
        backend.close()
        running = open_backend()
        assert running.counts()["available"] == 1

        (tmp_path / "backup.db").rename(file)

        assert running.counts()["available"] == 2
        assert running.enqueue([an_envelope()])[0].created
        assert running.counts()["available"] == 3

    @pytest.mark.parametrize(
        ("mode", "way_out"),
        [
            (0o444, "give this user write access to it and its folder"),
            (0o000, "this user must be able to read and write it and to create files in"),
        ],
    )
    def test_a_file_of_another_user_names_the_way_out(self, run, public_folder, mode, way_out):
        SqliteBackend.open(public_folder / "jobs.db").close()
        (public_folder / "jobs.db").chmod(mode)

        output = run(_OPEN_AS_NOBODY, public_folder / "jobs.db")

        assert output.startswith("BackendMisconfigured")
        assert way_out in output

    def test_a_folder_of_another_user_names_the_way_out(self, run, public_folder):
        output = run(_OPEN_AS_NOBODY, public_folder / "jobs.db")

        assert output.startswith("BackendMisconfigured")
        assert "Permission denied; use another folder" in output

    def test_a_disk_error_closes_the_connection_and_the_next_call_opens_it(self, backend):
        broken = backend._connections.writer._connection
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorname = "SQLITE_IOERR_FSYNC"

        with pytest.raises(BackendUnavailable, match="whether the call was applied is unknown"), backend._writing():
            raise error

        assert backend.enqueue([an_envelope()])[0].created
        assert backend._connections.writer._connection is not broken


class TestRefusals:
    def poison(self, file, job_id):
        sql(
            file,
            f"CREATE TRIGGER poison BEFORE INSERT ON onward_finished WHEN new.id = '{job_id}' "
            "BEGIN SELECT raise(ABORT, 'not this one'); END",
        )

    def test_a_poisoned_settlement_is_refused_and_nothing_of_its_batch_applied(self, backend, file):
        backend.enqueue(some_envelopes(5))
        leases = backend.claim(a_claim(limit=5))
        settlements = [Settlement.nack(leases[0], 5), *map(Settlement.ack, leases[1:])]
        self.poison(file, leases[3].envelope.id)

        with pytest.raises(BackendRefused, match="not this one"):
            backend.settle(settlements)

        assert backend.counts()["executing"] == 5
        assert backend.get(leases[0].envelope.id).runs == ()
        sql(file, "DROP TRIGGER poison")
        assert all(answer.applied for answer in backend.settle(settlements))

    @pytest.mark.parametrize(
        "envelope",
        [
            {"priority": 2**70},
            {"expires_at": 2**70},
            {"job": "\ud800"},
        ],
    )
    def test_values_that_no_column_holds_are_refused_and_store_nothing_of_the_batch(self, backend, envelope):
        good, bad = an_envelope(), replace(an_envelope(), **envelope)

        with pytest.raises(BackendRefused):
            backend.enqueue([good, bad])

        assert backend.get(good.id) is None

    @pytest.mark.parametrize("delay", [float("inf"), float("nan"), 1e30])
    def test_a_delay_that_is_no_time_is_refused(self, backend, delay):
        lease = a_lease(backend)

        with pytest.raises(BackendRefused):
            backend.nack(lease, delay)

        assert backend.ack(lease).applied

    def test_a_missing_table_is_a_typed_error(self, backend, file):
        sql(file, "DROP TABLE onward_jobs")

        with pytest.raises(BackendError, match="no such table"):
            backend.enqueue([an_envelope()])


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("SQLITE_BUSY_SNAPSHOT", BackendUnreachable),
        ("SQLITE_LOCKED", BackendUnreachable),
        ("SQLITE_FULL", StoreFull),
        ("SQLITE_IOERR_READ", BackendUnavailable),
        ("SQLITE_CORRUPT_INDEX", StoreCorrupt),
        ("SQLITE_NOTADB", StoreCorrupt),
        ("SQLITE_READONLY_DBMOVED", BackendMisconfigured),
        ("SQLITE_PERM", BackendMisconfigured),
        ("SQLITE_CANTOPEN_ISDIR", BackendMisconfigured),
        ("SQLITE_CONSTRAINT_NOTNULL", BackendRefused),
        ("SQLITE_TOOBIG", BackendRefused),
        ("SQLITE_MISMATCH", BackendRefused),
        ("SQLITE_INTERRUPT", BackendUnavailable),
        ("SQLITE_ERROR", BackendError),
    ],
)
def test_every_code_of_sqlite_has_a_word(file, code, error):
    raised = sqlite3.OperationalError("something")
    raised.sqlite_errorname = code

    assert type(errors.translation(raised, file)) is error


_OPEN_AS_NOBODY = """
    import os, sys
    from onward.backends.sqlite import SqliteBackend
    from onward.errors import BackendError

    os.chmod(os.path.dirname(sys.argv[2]), 0o555)
    SqliteBackend.at(sys.argv[2])  # which reads our own files, while it may
    if os.geteuid() == 0:  # for root everything is allowed
        os.setgid(65534)
        os.setuid(65534)
    try:
        SqliteBackend.open(sys.argv[2]).close()
    except BackendError as error:
        print(type(error).__name__, error)
"""
