"""Every proof at any scale: 1 is what `make proof` runs, tests run a small fraction of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from onward import Onward
from onward.backends.memory import MemoryBackend
from onward.backends.sqlite import SqliteBackend
from tests.proof import (
    chords,
    dashboard_watchers,
    deep,
    enqueuers,
    exactly_once,
    fairness,
    flows,
    keyed,
    kills,
    labour,
    limits,
    long_log,
    looks,
    moves,
    restarts,
    schedules,
    snapshots,
    soak,
    watchers,
)
from tests.proof.crowd import Tell
from tests.proof.ledger import Ledger
from tests.proof.once_shop import STEPS
from tests.servers.databases import in_mariadb, in_postgres, in_sqlite
from tests.servers.engines import private_store
from tests.servers.mariadb import mariadb_server
from tests.servers.postgres import VERSIONS, postgres_server
from tests.servers.redis import redis_server

__all__ = [
    "Proof",
    "a_limit_under_fire_on_a_file",
    "a_limit_under_fire_on_mariadb",
    "a_limit_under_fire_on_postgres",
    "a_limit_under_fire_on_redis",
    "a_rate_on_a_file",
    "a_rate_on_mariadb",
    "a_rate_on_postgres",
    "a_rate_on_redis",
    "chord_on_a_file",
    "chord_on_mariadb",
    "chord_on_postgres",
    "chord_on_redis",
    "claims_behind_a_snapshot",
    "claims_in_full_tables",
    "claims_of_many_lanes_behind_a_snapshot",
    "claims_of_two_lanes_behind_a_snapshot",
    "flows_under_fire_on_a_file",
    "flows_under_fire_on_mariadb",
    "flows_under_fire_on_postgres",
    "flows_under_fire_on_redis",
    "jobs_are_transferred",
    "keys_on_mariadb",
    "keys_on_postgres",
    "log_behind_a_reader",
    "looks_at_a_full_file",
    "looks_at_full_tables",
    "looks_at_full_tables_of_mariadb",
    "many_rivals_for_one_key",
    "processes_enqueue_one_by_one",
    "processes_share_a_file",
    "redis_is_killed",
    "schedules_on_a_file",
    "schedules_on_mariadb",
    "schedules_on_postgres",
    "schedules_on_redis",
    "tenants_take_turns_on_a_file",
    "tenants_take_turns_on_mariadb",
    "tenants_take_turns_on_postgres",
    "tenants_take_turns_on_redis",
    "threads_share_a_file",
    "threads_share_memory",
    "transactions_on_a_file",
    "transactions_on_mariadb",
    "transactions_on_postgres",
    "watchers_of_a_file",
    "watchers_of_tables",
    "watchers_of_the_dashboard",
    "worker_in_memory",
    "worker_on_a_file",
    "worker_on_mariadb",
    "worker_on_postgres",
    "worker_processes_are_killed",
    "worker_processes_are_killed_on_mariadb",
    "worker_processes_are_killed_on_postgres",
    "worker_processes_are_killed_on_redis",
]

Proof = Callable[[Path, float, Tell], Ledger]


def processes_share_a_file(folder: Path, scale: float, tell: Tell) -> Ledger:
    return labour.of_processes(folder / "jobs.db", jobs=_jobs(1_000_000, scale), tell=tell)


def threads_share_a_file(folder: Path, scale: float, tell: Tell) -> Ledger:
    with closing(SqliteBackend.open(folder / "jobs.db")) as backend:
        return labour.of_threads(backend, folder / "records", name="sqlite", jobs=_jobs(500_000, scale), tell=tell)


def threads_share_memory(folder: Path, scale: float, tell: Tell) -> Ledger:
    with closing(MemoryBackend()) as backend:
        return labour.of_threads(backend, folder / "records", name="memory", jobs=_jobs(500_000, scale), tell=tell)


def processes_enqueue_one_by_one(folder: Path, scale: float, tell: Tell) -> Ledger:
    return enqueuers.one_by_one(folder / "jobs.db", seconds=100 * scale, tell=tell)


def many_rivals_for_one_key(folder: Path, scale: float, tell: Tell) -> Ledger:
    return enqueuers.of_one_key_each_round(folder / "jobs.db", rounds=round(500 * scale), processes=16, tell=tell)


def log_behind_a_reader(folder: Path, scale: float, _: Tell) -> Ledger:
    return long_log.behind_a_reader(folder / "jobs.db", times_the_limit=1.2 + 10 * scale)


def worker_on_a_file(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _soak("sqlite", folder, scale, tell)


def worker_on_postgres(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _soak("postgres", folder, scale, tell)


def worker_in_memory(_: Path, scale: float, tell: Tell) -> Ledger:
    return _soaked("memory://", scale, tell)


def worker_processes_are_killed(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _killed("sqlite", folder, scale, tell)


def worker_processes_are_killed_on_postgres(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _killed("postgres", folder, scale, tell)


def keys_on_postgres(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _keyed("postgres", folder, scale, tell, unique=True)


def keys_on_mariadb(folder: Path, scale: float, tell: Tell) -> Ledger:
    # InnoDB locks gaps where a unique index had an entry: who asks for such a key at the same time may still be undone.
    return _keyed("mariadb", folder, scale, tell, unique=False)


def claims_behind_a_snapshot(folder: Path, scale: float, tell: Tell) -> Ledger:
    with private_store("postgres", folder) as store:
        return snapshots.behind_a_snapshot(store.url(), seconds=300 * scale, tell=tell)


def claims_of_two_lanes_behind_a_snapshot(folder: Path, scale: float, tell: Tell) -> Ledger:
    with private_store("postgres", folder) as store:
        return snapshots.behind_a_snapshot(store.url(), seconds=200 * scale, lanes=2, tell=tell)


def claims_of_many_lanes_behind_a_snapshot(folder: Path, scale: float, tell: Tell) -> Ledger:
    with private_store("postgres", folder) as store:
        return snapshots.behind_a_snapshot(store.url(), seconds=200 * scale, lanes=1_000, tell=tell)


def claims_in_full_tables(folder: Path, scale: float, tell: Tell) -> Ledger:
    with private_store("postgres", folder) as store:
        rows, turns = round(1_000_000 * scale), max(50, round(2_000 * scale))
        return deep.tables(store.url(), rows=rows, turns=turns, tell=tell)


def looks_at_a_full_file(folder: Path, scale: float, tell: Tell) -> Ledger:
    return looks.of_a_file(folder, _stock(scale), tell)


def watchers_of_the_dashboard(folder: Path, scale: float, tell: Tell) -> Ledger:
    return dashboard_watchers.of_a_file(folder, jobs=_jobs(20_000, scale), pairs=max(2, round(20 * scale)), tell=tell)


def looks_at_full_tables(folder: Path, scale: float, tell: Tell) -> Ledger:
    with private_store("postgres", folder) as store:
        return looks.on_postgres(store.url(), _stock(scale), tell)


def looks_at_full_tables_of_mariadb(folder: Path, scale: float, tell: Tell) -> Ledger:
    with private_store("mariadb", folder) as store:
        return looks.on_mariadb(store.url(), _stock(scale, 2_000_000), tell)


def watchers_of_a_file(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _watched(f"sqlite:///{folder}/jobs.db", scale, tell)


def watchers_of_tables(folder: Path, scale: float, tell: Tell) -> Ledger:
    def servers(app: Onward) -> list[int]:
        backend: Any = app.backend
        return [connection.info.backend_pid for connection in backend._connections._open.values()]

    with private_store("postgres", folder) as store:
        return _watched(store.url(), scale, tell, servers)


def worker_on_mariadb(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _soak("mariadb", folder, scale, tell)


def worker_processes_are_killed_on_mariadb(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _killed("mariadb", folder, scale, tell)


def worker_processes_are_killed_on_redis(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _killed("redis", folder, scale, tell)


def transactions_on_a_file(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _transacted("sqlite", in_sqlite(folder), folder, scale, tell)


def transactions_on_postgres(folder: Path, scale: float, tell: Tell) -> Ledger:
    with postgres_server(VERSIONS[-1]) as server:
        database = in_postgres(server)
        return _without_deadlock(server, lambda: _transacted("postgres", database, folder, scale, tell))


def transactions_on_mariadb(folder: Path, scale: float, tell: Tell) -> Ledger:
    with mariadb_server() as server:
        database = in_mariadb(server)
        return _without_deadlock(server, lambda: _transacted("mariadb", database, folder, scale, tell))


def redis_is_killed(folder: Path, scale: float, tell: Tell) -> Ledger:
    return restarts.of_a_redis_server(
        folder, jobs=max(2_000, round(100_000 * scale)), restarts=max(3, round(20 * scale)), tell=tell
    )


def schedules_on_a_file(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _scheduled("sqlite", folder, scale, tell)


def schedules_on_postgres(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _scheduled("postgres", folder, scale, tell)


def schedules_on_mariadb(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _scheduled("mariadb", folder, scale, tell)


def schedules_on_redis(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _scheduled("redis", folder, scale, tell)


def a_limit_under_fire_on_a_file(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _under_fire("sqlite", folder, scale, tell)


def a_limit_under_fire_on_postgres(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _under_fire("postgres", folder, scale, tell)


def a_limit_under_fire_on_mariadb(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _under_fire("mariadb", folder, scale, tell)


def a_limit_under_fire_on_redis(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _under_fire("redis", folder, scale, tell)


def a_rate_on_a_file(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _at_a_rate("sqlite", folder, scale, tell)


def a_rate_on_postgres(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _at_a_rate("postgres", folder, scale, tell)


def a_rate_on_mariadb(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _at_a_rate("mariadb", folder, scale, tell)


def a_rate_on_redis(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _at_a_rate("redis", folder, scale, tell)


def tenants_take_turns_on_a_file(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _taking_turns("sqlite", folder, scale, tell)


def tenants_take_turns_on_postgres(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _taking_turns("postgres", folder, scale, tell)


def tenants_take_turns_on_mariadb(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _taking_turns("mariadb", folder, scale, tell)


def tenants_take_turns_on_redis(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _taking_turns("redis", folder, scale, tell)


def flows_under_fire_on_a_file(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _flows_under_fire("sqlite", folder, scale, tell, server_kills=0)


def flows_under_fire_on_postgres(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _flows_under_fire("postgres", folder, scale, tell)


def flows_under_fire_on_mariadb(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _flows_under_fire("mariadb", folder, scale, tell)


def flows_under_fire_on_redis(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _flows_under_fire("redis", folder, scale, tell)


def chord_on_a_file(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _chord("sqlite", folder, scale, tell)


def chord_on_postgres(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _chord("postgres", folder, scale, tell)


def chord_on_mariadb(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _chord("mariadb", folder, scale, tell)


def chord_on_redis(folder: Path, scale: float, tell: Tell) -> Ledger:
    return _chord("redis", folder, scale, tell)


def jobs_are_transferred(folder: Path, scale: float, tell: Tell) -> Ledger:
    with (
        private_store("postgres", folder) as postgres,
        private_store("mariadb", folder) as mariadb,
        redis_server("redis") as redis,
    ):
        servers = [postgres.url(), redis.url(), mariadb.url()]
        urls = [f"sqlite:///{folder}/old.db", *servers, f"sqlite:///{folder}/new.db"]
        return moves.between_stores(
            urls, jobs=max(2_000, round(100_000 * scale)), kills=max(3, round(10 * scale)), tell=tell
        )


def _soak(engine: str, folder: Path, scale: float, tell: Tell) -> Ledger:
    with private_store(engine, folder) as store:
        return _without_deadlock(store, lambda: _soaked(store.url(), scale, tell))


def _soaked(url: str, scale: float, tell: Tell) -> Ledger:
    return soak.of_a_worker(url, jobs=round(100_000 * scale), restarts=max(8, round(50 * scale)), tell=tell)


def _scheduled(engine: str, folder: Path, scale: float, tell: Tell) -> Ledger:
    with private_store(engine, folder) as store:
        return schedules.of_supervisors(store.url(), folder, seconds=max(8.0, 200 * scale), tell=tell)


def _under_fire(engine: str, folder: Path, scale: float, tell: Tell) -> Ledger:
    with private_store(engine, folder) as store:
        return limits.of_processes_under_fire(
            store,
            folder,
            jobs=max(300, round(20_000 * scale)),
            kills=max(3, round(50 * scale)),
            supervisors=max(2, round(4 * scale)),
            tell=tell,
        )


def _flows_under_fire(engine: str, folder: Path, scale: float, tell: Tell, *, server_kills: int = 5) -> Ledger:
    with private_store(engine, folder) as store:
        return flows.of_processes_under_fire(
            store,
            folder,
            flows=max(40, round(2_000 * scale)),
            kills=max(4, round(100 * scale)),
            server_kills=min(server_kills, max(1, round(server_kills * scale))),
            supervisors=max(2, round(3 * scale)),
            tell=tell,
        )


def _chord(engine: str, folder: Path, scale: float, tell: Tell) -> Ledger:
    with private_store(engine, folder) as store:
        return chords.of_workers(store, folder, members=max(3_000, round(100_000 * scale)), tell=tell)


def _at_a_rate(engine: str, folder: Path, scale: float, tell: Tell) -> Ledger:
    with private_store(engine, folder) as store:
        seconds, supervisors = max(6.0, 60 * scale), max(2, round(5 * scale))
        return limits.of_processes_at_one_rate(store.url(), folder, seconds=seconds, supervisors=supervisors, tell=tell)


def _taking_turns(engine: str, folder: Path, scale: float, tell: Tell) -> Ledger:
    with private_store(engine, folder) as store:
        return fairness.of_tenants(
            store,
            waiting=max(10_000, round(1_000_000 * scale)),
            tenants=max(100, round(1_000 * scale)),
            short_lived=max(3, round(100 * scale)),
            tell=tell,
        )


def _killed(engine: str, folder: Path, scale: float, tell: Tell) -> Ledger:
    with private_store(engine, folder) as store:
        return _without_deadlock(
            store,
            lambda: kills.of_worker_processes(
                store.url(),
                folder,
                jobs=max(600, round(10_000 * scale)),
                blows=kills.Blows(
                    kills=max(6, round(100 * scale)),
                    restarts=max(3, round(50 * scale)),
                    pauses=max(2, round(25 * scale)),
                    jumps=max(2, round(25 * scale)),
                ),
                tell=tell,
            ),
        )


def _keyed(engine: str, folder: Path, scale: float, tell: Tell, *, unique: bool) -> Ledger:
    with private_store(engine, folder) as store:
        jobs = max(1_000, round(50_000 * scale))
        return _without_deadlock(
            store, lambda: keyed.of_processes(store.url(), folder, name=engine, jobs=jobs, unique=unique, tell=tell)
        )


def _without_deadlock(server: Any, prove: Callable[[], Ledger]) -> Ledger:
    """A deadlock that the server counts meanwhile is a flaw."""
    before = server.deadlocks()
    ledger = prove()
    count = server.deadlocks() - before
    if count:
        sys.stderr.write(server.latest_deadlock())  # into the log of the part
    return replace(ledger, flaws={**ledger.flaws, "deadlocks": count})


def _transacted(name: str, database: Any, folder: Path, scale: float, tell: Tell) -> Ledger:
    enqueued = exactly_once.of_enqueues(name, database.url, database.connect, jobs=max(100, round(1_000 * scale)))
    # A death waits for its lease to end: on a small scale there is one at each step.
    jobs = max(len(STEPS) + 1, round(1_000 * scale))
    completed = exactly_once.of_completions(name, database.url, database.connect, folder, jobs=jobs, tell=tell)
    return enqueued.and_then(completed)


def _watched(url: str, scale: float, tell: Tell, servers: watchers.Servers = lambda _: ()) -> Ledger:
    pairs, seconds = max(2, round(12 * scale)), max(4.5, 10 * scale)
    return watchers.of_a_store(url, pairs=pairs, seconds=seconds, tell=tell, servers=servers)


def _stock(scale: float, whole: int = 10_000_000) -> looks.Stock:
    """A million waiting and so many finished jobs at full scale; a smaller one has a share of two million, stored faster."""
    finished = whole if scale >= 1 else 2_000_000
    return looks.Stock(
        at_most=max(50, round(1_000 * scale)),
        queues=max(5, round(100 * scale)),
        times=5,
        finished=max(20_000, round(finished * scale)),
    )


def _jobs(claims: int, scale: float) -> int:
    return round(claims * scale) // labour.CLAIMS_PER_JOB
