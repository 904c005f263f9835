"""A file of keys is looked at now and then, read when it has changed, and never believed when it makes no sense."""

import gc
import logging
import os
import threading
import time
import weakref
from types import SimpleNamespace

import pytest

from onward.security import key_file
from onward.security.key_file import KeyFile
from onward.security.key_ring import Key, KeyRing
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("private_files")

FIRST = KeyRing([Key.new("k1")])
SECOND = FIRST.adding(Key.new("k2")).promoting()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "keys.json"
    path.write_bytes(FIRST.to_file())
    return path


@pytest.fixture
def adopted():
    return []


@pytest.fixture
def keys(path, adopted):
    keys = KeyFile(KeyRing.read(path), path, adopted.append)
    yield keys
    keys.close()


def replace(path, content):
    """As `onward keys` does it, and other careful programs."""
    new = path.with_name("new")
    new.write_bytes(content)
    new.replace(path)


def rest(path):
    """It was not written to for a while."""
    before = time.time() - 10
    os.utime(path, (before, before))


@pytest.mark.promise("S37")
def test_a_file_that_was_replaced_is_read_at_once(keys, path, adopted):
    replace(path, SECOND.to_file())
    keys.look_now()

    assert adopted == [SECOND]
    assert keys.ring == SECOND


def test_a_file_that_says_the_same_changes_nothing(keys, path, adopted):
    ring = keys.ring
    replace(path, FIRST.to_file())
    keys.look_now()
    rest(path)
    keys.look_now()

    assert (adopted, keys.ring is ring) == ([], True)


def test_a_file_that_is_written_over_is_read_once_it_is_at_rest(keys, path, adopted):
    """Half of it may look like a whole one."""
    path.write_text(f"k2:{'n' * 40},k1:{'o' * 35}")
    keys.look_now()
    assert adopted == []

    path.write_text(f"k2:{'n' * 40},k1:{'o' * 40}")
    rest(path)
    keys.look_now()
    assert [[key.secret for key in ring.keys] for ring in adopted] == [[b"n" * 40, b"o" * 40]]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda path: path.unlink(), "No such file or directory"),
        (lambda path: replace(path, b'{"keys": ['), "is not a key file"),
        (lambda path: replace(path, b"\xff\xfe"), "is not a key file"),
        (lambda path: replace(path, b""), "names no key that can sign"),
        (lambda path: replace(path, b"k1:revoked"), "names no key that can sign"),
        (lambda path: replace(path, b"k1:tooshort"), "shorter than 32 characters"),
        (lambda path: (path.unlink(), path.mkdir(), rest(path)), "cannot be read"),
    ],
    ids=["gone", "cut", "bytes", "empty", "revoked", "short", "folder"],
)
def test_a_file_that_makes_no_sense_changes_nothing_and_is_told_once(keys, path, adopted, caplog, spoil, told):
    spoil(path)
    for _ in range(3):
        keys.look_now()

    assert (adopted, keys.ring) == ([], FIRST)
    (record,) = caplog.records
    assert (record.levelno, told in record.message) == (logging.ERROR, True)
    assert FIRST.signing.secret.decode() not in record.message

    if path.is_dir():
        path.rmdir()
    replace(path, SECOND.to_file())
    rest(path)
    keys.look_now()
    assert adopted == [SECOND]


def test_a_file_that_is_spoiled_again_is_told_again(keys, path, caplog):
    for content in (b"?", FIRST.to_file(), b"?"):
        replace(path, content)
        rest(path)
        keys.look_now()

    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2


def test_sealing_looks_at_the_file_once_a_second(keys, monkeypatch):
    now, looks = [100.0], []
    monkeypatch.setattr(key_file, "time", SimpleNamespace(monotonic=lambda: now[0], time=time.time))
    monkeypatch.setattr(keys, "_stamp", lambda: looks.append(now[0]) or (keys._seen, 0))
    for now[0] in (100, 100.5, 100.9, 101.1, 101.2, 102.0, 102.2):
        keys.look()

    assert looks == [100, 101.1, 102.2]


def test_a_look_waits_for_no_other_thread(keys):
    """Another thread is at it, on a file system that does not answer."""
    with keys._looking:
        assert keys.look() == FIRST


def test_a_watching_thread_adopts_new_keys(keys, path, adopted, monkeypatch):
    monkeypatch.setattr(key_file, "_EVERY", 0.01)
    keys.watch()
    keys.watch()
    replace(path, SECOND.to_file())

    eventually(lambda: adopted)
    assert [thread.name for thread in threading.enumerate()].count("onward-keys") == 1
    keys.close()
    eventually(lambda: "onward-keys" not in [thread.name for thread in threading.enumerate()])


def test_no_thread_watches_for_an_application_that_is_gone(path, monkeypatch):
    monkeypatch.setattr(key_file, "_EVERY", 0.01)
    keys = KeyFile(FIRST, path, lambda ring: None)
    keys.watch()
    gone = weakref.ref(keys)
    del keys

    eventually(lambda: gc.collect() is not None and gone() is None)
    eventually(lambda: "onward-keys" not in [thread.name for thread in threading.enumerate()])


def test_a_path_means_the_same_file_from_another_folder(path, adopted, monkeypatch):
    monkeypatch.chdir(path.parent)
    keys = KeyFile(FIRST, path.relative_to(path.parent), adopted.append)
    monkeypatch.chdir("/")
    replace(path, SECOND.to_file())
    keys.look_now()

    assert adopted == [SECOND]


def test_a_child_of_a_fork_can_look_though_another_thread_was_looking(keys, path):
    with keys._looking:
        child = os.fork()
        if child == 0:
            replace(path, SECOND.to_file())
            keys.look_now()
            os._exit(0 if keys.ring == SECOND else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
