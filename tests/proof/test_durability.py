"""A job is on the disk, not only on its way there, when `enqueue` returns."""

import ctypes
import os
from contextlib import closing

import pytest

from onward.backends.sqlite import SqliteBackend
from onward.testing.contract.builders import a_lease, an_envelope

FULL = 2  # PRAGMA synchronous


@pytest.fixture
def file(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def backend(file):
    with closing(SqliteBackend.open(file)) as backend:
        yield backend


class Pages(ctypes.Structure):
    """The pages of a file that the kernel keeps in memory, as cachestat(2) counts them."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted")]


def pages_not_on_disk(path):
    """How many pages of a file would not survive a power cut; skips where the kernel (before 6.5) cannot tell."""
    cachestat, whole_file, pages = 451, (ctypes.c_uint64 * 2)(0, 0), Pages()
    with path.open("rb") as file:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(cachestat, file.fileno(), whole_file, ctypes.byref(pages), 0) != 0:
            pytest.skip(f"cachestat: {os.strerror(ctypes.get_errno())}")
    return pages.dirty + pages.writeback


@pytest.fixture
def disk_that_tells(tmp_path):
    """A file system on which a write that was not synced shows: in memory there is no such thing."""
    unsynced = tmp_path / "unsynced"
    unsynced.write_bytes(b"x" * 65_536)
    if not pages_not_on_disk(unsynced):
        pytest.skip("this file system does not say what is not on the disk yet")


@pytest.mark.promise("F43")
def test_the_connections_are_set_to_sync_every_commit(backend):
    with backend._connections.writing() as connection:
        (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
        (journal,) = connection.execute("PRAGMA journal_mode").fetchone()

    assert (synchronous, journal) == (FULL, "wal")


@pytest.mark.promise("F43")
def test_what_was_accepted_is_on_the_disk(backend, file, disk_that_tells):
    for _ in range(20):
        backend.enqueue([an_envelope()])

        assert pages_not_on_disk(file.with_name(f"{file.name}-wal")) == 0


def test_what_was_settled_is_on_the_disk(backend, file, disk_that_tells):
    for _ in range(20):
        backend.ack(a_lease(backend))

        assert pages_not_on_disk(file.with_name(f"{file.name}-wal")) == 0
