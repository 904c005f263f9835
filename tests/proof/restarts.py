"""Workers on a Redis server that is killed again and again: without an answer a worker adopts its own session."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from onward.backend import Claim, Lease, Look, Query, Session, Settlement, StoredJob, Turn
from onward.backends.redis import RedisBackend
from onward.errors import BackendUnavailable
from onward.job.settlement import under
from onward.job.states import State
from onward.testing.contract.builders import some_envelopes
from tests.proof.crowd import Common, Tell, in_processes
from tests.proof.ledger import Ledger
from tests.servers.connecting import connected
from tests.servers.redis import redis_server

__all__ = ["of_a_redis_server"]

T = TypeVar("T")

_BATCH = 50
_QUEUE = ("default",)
_PATIENCE = 60.0


class Crew(NamedTuple):
    """Who does how much, where, and where it is written down."""

    url: str
    records: Path
    jobs: int
    processes: int
    threads: int

    def share(self, worker: int) -> int:
        workers = self.processes * self.threads
        return self.jobs // workers + (worker < self.jobs % workers)


def of_a_redis_server(
    folder: Path, *, jobs: int, restarts: int, processes: int = 4, threads: int = 4, tell: Tell
) -> Ledger:
    """Everything is appended to its file before it is answered; the server is killed as often as asked for."""
    (folder / "records").mkdir()
    with redis_server("redis") as server:
        crew = Crew(server.url(), folder / "records", jobs, processes, threads)
        begun = time.monotonic()
        killed: list[float] = []
        nemesis = threading.Thread(target=_kill, args=(server, jobs, restarts, killed))
        nemesis.start()
        errors = in_processes(processes, _process, crew, tell=tell)
        nemesis.join()
        seconds = time.monotonic() - begun
        with closing(connected(RedisBackend.from_url(crew.url))) as backend:
            return _ledger(crew, killed, restarts, backend, errors, seconds)


def _kill(server: Any, jobs: int, restarts: int, killed: list[float]) -> None:
    """Each time another part of the jobs has ended."""
    with closing(connected(RedisBackend.from_url(server.url()))) as backend:
        for number in range(restarts):
            deadline = time.monotonic() + _PATIENCE
            while _persist(lambda: backend.look(Look(counts=True))).overview.ended < jobs * (number + 0.5) / (
                restarts + 1
            ):
                if time.monotonic() > deadline:
                    return
                time.sleep(0.005)
            server.restart(signal.SIGKILL)
            killed.append(time.monotonic())


def _process(number: int, crew: Crew, common: Common) -> None:
    workers = range(number * crew.threads, (number + 1) * crew.threads)
    with ThreadPoolExecutor(crew.threads) as pool:
        for worker in workers:
            pool.submit(common.attempt, _work, worker, crew)


def _work(worker: int, crew: Crew, common: Common) -> None:
    """Enqueue and take turns, writing down every claim and every answer."""
    left = crew.share(worker)
    with (
        closing(_persist(lambda: connected(RedisBackend.from_url(crew.url)))) as backend,
        (crew.records / f"{worker}.claims").open("w") as claims,
        (crew.records / f"{worker}.answers").open("w") as answers,
    ):
        owner, generation = f"worker-{worker}-0", 0
        _persist(lambda: backend.open_session(_session(owner)))
        held: Sequence[Lease] = ()
        while not common.stop.is_set():
            if left:
                _enqueue(backend, min(left, _BATCH))
                left -= min(left, _BATCH)
            settlements = [Settlement.ack(lease) for lease in held]
            try:
                turn = Turn(owner=owner, settlements=settlements, claim=Claim(queues=_QUEUE, limit=_BATCH))
                result = backend.turn(turn)
                settled, held = result.settled, result.leases
            except BackendUnavailable:
                # The turn may have been applied, or not, or still be on its way: the successor's session shuts it out.
                before, generation = owner, generation + 1
                owner = f"worker-{worker}-{generation}"
                held = _adopt(backend, owner, before)
                again = [under(settlement, owner) for settlement in settlements]
                settled = _persist(lambda: backend.turn(Turn(owner=owner, settlements=again)).settled)  # noqa: B023
                known = {settlement.lease.envelope.id for settlement in settlements}
                held = [lease for lease in held if lease.envelope.id not in known]
            answers.writelines(
                f"{settlement.lease.envelope.id} {settlement.lease.token} {answer.answer}\n"
                for settlement, answer in zip(settlements, settled, strict=True)
            )
            claims.writelines(f"{lease.envelope.id} {lease.token}\n" for lease in held)
            common.add(len(held))
            if not held and not left:
                if not any(queue.live for queue in _persist(backend.queues)):
                    return
                _persist(lambda: backend.wait(_QUEUE, 0.05))


def _enqueue(backend: Any, count: int) -> None:
    envelopes = some_envelopes(count)
    try:
        backend.enqueue(envelopes)
    except BackendUnavailable:
        _persist(lambda: backend.enqueue(envelopes, retried=True))


def _adopt(backend: Any, owner: str, before: str) -> list[Lease]:
    held: list[Lease] | None = _persist(lambda: backend.open_session(_session(owner), adopts=before))
    assert held is not None, "a session was lost"
    return held


def _session(owner: str) -> Session:
    return Session(owner=owner, lease_for=timedelta(days=1))


def _persist(act: Callable[[], T]) -> T:
    """Try again while the server is away."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return act()
        except BackendUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _ledger(crew: Crew, killed: list[float], restarts: int, backend: Any, errors: list[str], seconds: float) -> Ledger:
    claims = _lines(crew.records, "*.claims")
    answers = [line.split() for line in _lines(crew.records, "*.answers")]
    applied = Counter(job_id for job_id, _, answer in answers if answer in ("applied", "already_applied"))
    right = sum(_as_it_should_be(job) for job in _all_jobs(backend))
    return Ledger(
        "restarts, redis",
        {
            "jobs": crew.jobs,
            "claims": len(claims),
            "workers": crew.processes * crew.threads,
            "kills of servers": len(killed),
            "settlements whose answer was lost": sum(answer == "already_applied" for _, _, answer in answers),
            "seconds": seconds,
        },
        {
            "lost": crew.jobs - right,
            "claimed twice": len(claims) - len(set(claims)),
            "settled twice": sum(count - 1 for count in applied.values()),
            "never settled": crew.jobs - len(applied),
            "spared": restarts - len(killed),
            "refused": sum(answer in ("lease_lost", "gone") for _, _, answer in answers),
        },
        errors,
    )


def _as_it_should_be(job: StoredJob) -> bool:
    """It ran once, and was settled once."""
    return (job.state, job.delivery, job.attempts, job.crashes) == (State.COMPLETED, 1, 1, 0)


def _all_jobs(backend: Any) -> list[StoredJob]:
    return list(backend.list(Query(limit=10**9)))


def _lines(folder: Path, pattern: str) -> list[str]:
    return [line for file in folder.glob(pattern) for line in file.read_text().splitlines()]
