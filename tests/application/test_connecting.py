"""An application is made without its store: the first use of it connects, or `connect` does."""

import asyncio
import os
import sqlite3
import threading
import traceback
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from onward import BackendMisconfigured, BackendUnavailable, Onward, OptionError, SchemaTooNew
from onward.errors import TransactionError
from tests.servers.proxy import Proxy
from tests.servers.redis import emptied as emptied_redis
from tests.servers.redis import free_port
from tests.servers.stores import emptied as emptied_postgres

THREADS = 8

AWAY = {
    "postgres": "postgresql://ann@127.0.0.1:{}/shop",
    "mysql": "mysql://ann@127.0.0.1:{}/shop",
    "redis": "redis://127.0.0.1:{}/0",
    "beanstalk": "beanstalk://127.0.0.1:{}",
    "servicebus": "servicebus://key:c2VjcmV0@127.0.0.1:{}",
}


@pytest.fixture(params=AWAY)
def away(request):
    """The URL of a server that is not there."""
    return AWAY[request.param].format(free_port())


@pytest.fixture(params=["sqlite", "postgres", "mariadb", "redis"])
def fresh_url(request, folder):
    """An empty store that many can share."""
    if request.param == "sqlite":
        return f"sqlite:///{folder / 'fresh.db'}"
    if request.param == "postgres":
        return emptied_postgres(request.getfixturevalue("newest_postgres"))
    if request.param == "mariadb":
        return request.getfixturevalue("mariadb").emptied()
    return emptied_redis(request.getfixturevalue("any_redis"))


@pytest.fixture(params=["newest_postgres", "mariadb", "any_redis"])
def late(request):
    """A URL where no server is yet, and what starts it there."""
    server = request.getfixturevalue(request.param)
    with TemporaryDirectory(prefix="late-") as folder:
        proxies = []
        yield server.url_through(Path(folder)), lambda: proxies.append(Proxy(server, Path(folder)))
        for proxy in proxies:
            proxy.close()


def test_an_application_is_made_while_its_server_is_away(away):
    with Onward(away, enqueue_timeout=0.1) as jobs:

        @jobs.job
        def work(n: int) -> None: ...

        with pytest.raises(BackendUnavailable):
            jobs.connect()
        with pytest.raises(BackendUnavailable):
            work.enqueue(1)
        with pytest.raises(BackendUnavailable):
            jobs.worker().start()


def test_what_a_store_lacks_is_known_while_it_is_away(away):
    with Onward(away) as jobs:
        if jobs.backend.capabilities.holds:
            jobs.job(single_instance=True)(clean)
        else:
            with pytest.raises(OptionError, match="single_instance"):
                jobs.job(single_instance=True)(clean)


def clean() -> None: ...


def test_what_is_wrong_with_a_url_is_said_at_once():
    with pytest.raises(BackendMisconfigured, match="pool_sise"):
        Onward("postgresql://ann@127.0.0.1/shop?pool_sise=3")
    with pytest.raises(BackendMisconfigured, match="colour"):
        Onward("sqlite:///jobs.db?colour=red")
    with pytest.raises(BackendMisconfigured, match="memory://"):
        Onward("sqlite:///:memory:")


def test_to_make_one_creates_no_file(tmp_path):
    with Onward(f"sqlite:///{tmp_path / 'jobs.db'}") as jobs:

        @jobs.job
        def work() -> None: ...

        jobs.worker()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("look", [lambda jobs: jobs.counts(), lambda jobs: jobs.drain(), lambda jobs: jobs.health()])
def test_the_first_use_may_be_to_look(tmp_path, look):
    with Onward(f"sqlite:///{tmp_path / 'jobs.db'}") as jobs:
        look(jobs)

        assert jobs.enqueue("work").state() == "available"


def test_connect_gives_the_application_and_makes_its_store(tmp_path):
    with Onward(f"sqlite:///{tmp_path / 'jobs.db'}").connect() as jobs:
        assert (tmp_path / "jobs.db").exists()
        assert jobs.connect() is jobs


def test_a_path_counts_from_the_folder_where_the_application_was_made(tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    with Onward("sqlite:///jobs.db") as jobs:
        monkeypatch.chdir(elsewhere)
        jobs.connect()

    assert (tmp_path / "jobs.db").exists()


def test_a_first_use_that_failed_is_tried_again_at_the_next(late):
    url, start = late
    with Onward(url, enqueue_timeout=1) as jobs:
        with pytest.raises(BackendUnavailable):
            jobs.enqueue("work")
        start()

        assert jobs.enqueue("work").state() == "available"


def test_so_is_one_on_a_file_whose_folder_was_missing(tmp_path):
    with Onward(f"sqlite:///{tmp_path / 'later' / 'jobs.db'}") as jobs:
        for _ in range(2):
            with pytest.raises(BackendMisconfigured, match="create it"):
                jobs.counts()
        (tmp_path / "later").mkdir()

        assert jobs.enqueue("work").state() == "available"


def test_tables_that_are_newer_are_refused_at_the_first_use_and_at_every_other(tmp_path):
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    Onward(url).connect().close()
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as file:
        file.execute("INSERT INTO onward_migrations SELECT 99, 'of tomorrow', max(applied_at) FROM onward_migrations")
        file.commit()

    with Onward(url) as jobs:
        for use in (jobs.connect, jobs.counts, lambda: jobs.enqueue("work")):
            with pytest.raises(SchemaTooNew):
                use()


def test_threads_that_use_it_first_at_once_all_succeed(fresh_url):
    with Onward(fresh_url) as jobs:
        gate, failures = threading.Barrier(THREADS), []

        def use(number):
            try:
                gate.wait()
                jobs.enqueue("work") if number % 2 else jobs.counts()
            except Exception as error:  # noqa: BLE001
                failures.append(error)

        threads = [threading.Thread(target=use, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert failures == []
        assert jobs.counts()["available"] == THREADS // 2


def test_so_do_coroutines(fresh_url):
    async def use(jobs):
        await asyncio.gather(*(jobs.aenqueue("work") for _ in range(THREADS)))

    with Onward(fresh_url) as jobs:
        asyncio.run(use(jobs))

        assert jobs.counts()["available"] == THREADS


def test_both_sides_of_a_fork_connect_by_themselves(fresh_url):
    with Onward(fresh_url) as jobs:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                jobs.enqueue("child")
                code = 0
            except BaseException:  # noqa: BLE001  the parent is told by the code, a reader by the traceback
                traceback.print_exc()
            finally:
                os._exit(code)
        jobs.enqueue("parent")

        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert sorted(each.job for each in jobs.list()) == ["child", "parent"]


def test_a_worker_says_at_its_start_what_is_wrong(tmp_path):
    with (
        Onward(f"sqlite:///{tmp_path / 'nowhere' / 'jobs.db'}") as jobs,
        pytest.raises(BackendMisconfigured, match=r"the folder .* does not exist"),
    ):
        jobs.worker().start()


class TestTransactions:
    def test_one_may_be_the_first_use(self, tmp_path):
        file = tmp_path / "shop.db"
        with Onward(f"sqlite:///{file}") as jobs, closing(sqlite3.connect(file)) as connection:
            with jobs.transaction(connection) as tx:
                tx.enqueue("work")
            connection.commit()

            assert jobs.counts()["available"] == 1

    def test_one_that_keeps_the_tables_from_being_made_is_told_what_to_do(self, tmp_path, monkeypatch):
        monkeypatch.setattr("onward.transactions.joining._FIRST_LOOK", 0.1)
        file = tmp_path / "shop.db"
        with Onward(f"sqlite:///{file}") as jobs, closing(sqlite3.connect(file)) as connection:
            connection.execute("CREATE TABLE orders (id INTEGER)")
            connection.execute("INSERT INTO orders VALUES (1)")

            with pytest.raises(TransactionError, match=r"call jobs\.connect\(\) before"), jobs.transaction(connection):
                pytest.fail("it joined")

            connection.rollback()
            jobs.connect()
            connection.execute("INSERT INTO orders VALUES (2)")
            with jobs.transaction(connection) as tx:
                tx.enqueue("work")
            connection.commit()
            assert jobs.counts()["available"] == 1

    def test_one_that_holds_the_lock_may_be_the_first_use_where_the_tables_are(self, tmp_path):
        file = tmp_path / "shop.db"
        Onward(f"sqlite:///{file}").connect().close()
        with Onward(f"sqlite:///{file}") as jobs, closing(sqlite3.connect(file)) as connection:
            connection.execute("CREATE TABLE orders (id INTEGER)")
            connection.execute("INSERT INTO orders VALUES (1)")
            with jobs.transaction(connection) as tx:
                tx.enqueue("work")
            connection.commit()

            assert jobs.counts()["available"] == 1
