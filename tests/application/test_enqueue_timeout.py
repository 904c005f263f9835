"""An enqueue waits no longer than `enqueue_timeout` for a store that does not answer, and says what became of the job."""

import asyncio
import os
import signal
import socket
import sqlite3
import threading
import time
from contextlib import closing, contextmanager

import pytest

from onward import BackendUnavailable, Onward, OptionError
from onward.errors import BackendUnreachable
from tests.servers.beanstalkd import beanstalkd_server
from tests.servers.mariadb import MariaDBServer
from tests.servers.proxy import proxy_to
from tests.servers.redis import emptied as emptied_redis
from tests.servers.redis import free_port
from tests.servers.stores import emptied as emptied_postgres

EMPTIED = {
    "newest_postgres": emptied_postgres,
    "mariadb": MariaDBServer.emptied,
    "any_redis": emptied_redis,
}

LIMIT = 0.5
SMALL = 1.0  # seconds more on a machine that has other things to do

URLS = {
    "postgres": "postgresql://ann@127.0.0.1:{}/shop",
    "mysql": "mysql://ann@127.0.0.1:{}/shop",
    "redis": "redis://127.0.0.1:{}/0",
    "beanstalk": "beanstalk://127.0.0.1:{}",
}


@pytest.fixture
def black_hole():
    """The port of a listener that accepts and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield listener.getsockname()[1]


@contextmanager
def within(limit):
    began = time.monotonic()
    yield
    assert time.monotonic() - began < limit + SMALL


@pytest.fixture(params=["newest_postgres", "mariadb", "any_redis"])
def proxied(request):
    server = request.getfixturevalue(request.param)
    EMPTIED[request.param](server)
    with proxy_to(server) as proxy:
        yield proxy


@pytest.mark.parametrize("kind", URLS)
def test_a_port_that_refuses_costs_no_more_than_the_time_out(kind):
    jobs = Onward(URLS[kind].format(free_port()), enqueue_timeout=LIMIT)
    with jobs, within(LIMIT), pytest.raises(BackendUnreachable):
        jobs.enqueue("work")


@pytest.mark.parametrize("kind", ["postgres", "mysql", "redis"])
def test_it_says_that_nothing_was_stored(kind):
    jobs = Onward(URLS[kind].format(free_port()), enqueue_timeout=LIMIT)
    with jobs, pytest.raises(BackendUnreachable, match=r"enqueue_timeout, 0\.5 s: nothing was stored"):
        jobs.enqueue("work")


@pytest.mark.parametrize("kind", URLS)
def test_nor_does_a_listener_that_never_answers(kind, black_hole):
    jobs = Onward(URLS[kind].format(black_hole), enqueue_timeout=LIMIT)
    with jobs, within(LIMIT), pytest.raises(BackendUnavailable):
        jobs.enqueue("work")


def test_nor_does_it_in_a_coroutine(black_hole):
    jobs = Onward(URLS["redis"].format(black_hole), enqueue_timeout=LIMIT)
    with jobs, within(LIMIT), pytest.raises(BackendUnavailable):
        asyncio.run(jobs.aenqueue("work"))


def test_threads_that_enqueue_at_once_do_not_wait_for_one_another(black_hole):
    with Onward(URLS["postgres"].format(black_hole), enqueue_timeout=LIMIT) as jobs:
        told = []

        def use():
            began = time.monotonic()
            with pytest.raises(BackendUnavailable):
                jobs.enqueue("work")
            told.append(time.monotonic() - began)

        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(told) == 8
        assert max(told) < LIMIT + SMALL


def test_a_store_that_falls_silent_leaves_the_fate_of_the_job_open(proxied):
    with Onward(proxied.url, enqueue_timeout=LIMIT) as jobs:
        jobs.enqueue("before")
        proxied.hold()
        try:
            with within(LIMIT), pytest.raises(BackendUnavailable, match="the job may have been stored") as raised:
                jobs.enqueue("work")
            assert not isinstance(raised.value, BackendUnreachable)
        finally:
            proxied.go_on()

        assert jobs.enqueue("after").state() == "available"


def test_a_beanstalkd_that_falls_silent_leaves_it_open_too():
    with beanstalkd_server() as server, Onward(server.url(), enqueue_timeout=LIMIT) as jobs:
        jobs.enqueue("before")
        os.kill(server.pid, signal.SIGSTOP)
        try:
            with within(LIMIT), pytest.raises(BackendUnavailable, match="1 of 1 jobs may have been stored"):
                jobs.enqueue("work")
        finally:
            os.kill(server.pid, signal.SIGCONT)

        jobs.enqueue("after")


def test_a_store_that_goes_away_and_comes_back_within_it_is_not_noticed(proxied):
    with Onward(proxied.url, enqueue_timeout=30) as jobs:
        jobs.enqueue("before")
        proxied.lose_the_next_answer()

        assert jobs.enqueue("work").state() == "available"
        assert sorted(each.job for each in jobs.list()) == ["before", "work"]


def test_a_lock_on_a_file_is_waited_for_no_longer_either(tmp_path):
    file = tmp_path / "jobs.db"
    with Onward(f"sqlite:///{file}", enqueue_timeout=LIMIT).connect() as jobs, closing(sqlite3.connect(file)) as other:
        other.execute("BEGIN IMMEDIATE")
        with within(LIMIT), pytest.raises(BackendUnreachable, match=r"holds the write lock.*nothing was stored"):
            jobs.enqueue("work")
        other.rollback()

        jobs.enqueue("work")
        assert jobs.counts()["available"] == 1


def test_others_than_an_enqueue_are_not_hurried(proxied):
    with Onward(proxied.url, enqueue_timeout=LIMIT) as jobs:
        jobs.enqueue("work")
        proxied.hold()
        threading.Timer(2 * LIMIT, proxied.go_on).start()

        assert jobs.counts()["available"] == 1


def test_it_is_a_setting_like_any_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "onward.toml").write_text('enqueue_timeout = "2s"')
    assert Onward("memory://").settings.enqueue_timeout == 2.0
    monkeypatch.setenv("ONWARD_ENQUEUE_TIMEOUT", "1.5")
    assert Onward("memory://").settings.enqueue_timeout == 1.5
    assert Onward("memory://", enqueue_timeout="300ms").settings.enqueue_timeout == 0.3
    with pytest.raises(OptionError, match="enqueue_timeout must be at least"):
        Onward("memory://", enqueue_timeout=0)
