"""Processes that fight for few keys by every verb that touches one: every job ends, and no key has two holders.

A process that holds a key makes a file of its name, which fails if there is one, and removes it before it settles.  Keys are
ended and taken by turns, ended by sweeps, adopted, asked for by batches that replace their holders, and pruned, all at once.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from onward.backend import Claim, Envelope, Hold, Lease, Query, Session, Settlement, Turn
from onward.backends.opening import open_store
from onward.base.clock import SystemClock
from onward.base.ids import IdMaker
from onward.config import Settings
from onward.job.envelope import open_sealed
from onward.job.states import FINISHED
from onward.testing.contract.builders import an_envelope
from tests.proof.crowd import Common, Tell, in_processes
from tests.proof.ledger import Ledger

__all__ = ["of_processes"]

# Few, so that nearly every turn meets another one's.
_ONCE, _SINGLE, _UNIQUE = 40, 6, 12
_BATCH = 6
_QUEUES = ("default",)
_NET = 0.05  # seconds until a waiter looks by itself: a wake-up that came too early costs no more
_an_id = IdMaker(SystemClock())
_TTL = 0.2  # seconds: keys are done, forgotten and taken anew


def of_processes(
    url: str, folder: Path, *, name: str, jobs: int, processes: int = 6, unique: bool = True, tell: Tell
) -> Ledger:
    """So many jobs by so many processes, until none is left.  ``unique``: some have unique keys."""
    records = folder / "keys"
    records.mkdir()
    with closing(_open(url)) as backend:
        begun = time.monotonic()
        errors = in_processes(processes, _work, url, records, jobs // processes, unique, tell=tell)
        seconds = time.monotonic() - begun
        live = sum(queue.live for queue in backend.queues())
        finished = sum(number for state, number in backend.counts().items() if state in FINISHED)
    told = Counter[str]()
    for record in records.glob("*.counts"):
        told.update({word: int(number) for word, number in (line.split() for line in record.read_text().splitlines())})
    return Ledger(
        f"keys, {name}",
        {
            "jobs": told["stored"],
            "processes": processes,
            "keys held": told["held"],
            "found busy": told["busy"],
            "jobs/s": round(told["stored"] / seconds),
            "seconds": seconds,
        },
        {"left": live, "lost": told["stored"] - live - finished},
        errors,
    )


def _open(url: str) -> Any:
    return open_store(Settings(url=url))


def _work(number: int, url: str, records: Path, jobs: int, unique: bool, common: Common) -> None:
    with closing(_open(url)) as backend:
        worker = _Worker(number, backend, records, jobs, unique=unique)
        while not common.stop.is_set() and worker.goes_on():
            common.add()
        (records / f"{number}.counts").write_text("".join(f"{word} {count}\n" for word, count in worker.told.items()))


class _Worker:
    """One session: it enqueues its share, and takes turns until no job lives."""

    def __init__(self, number: int, backend: Any, records: Path, jobs: int, *, unique: bool) -> None:
        self.told = Counter[str]()
        self._backend = backend
        self._records = records
        self._left = jobs
        self._unique = unique
        self._random = random.Random(number)
        self._sessions = (f"{number}-{session}" for session in range(1_000_000))
        self._owner = next(self._sessions)
        self._held: Sequence[Lease] = ()
        self._marks: list[Path] = []
        self._mine: list[str] = []
        backend.open_session(Session(owner=self._owner))

    def goes_on(self) -> bool:
        """Whether there is more to do."""
        if self._left > 0:
            self._enqueue()
        self._meddle()
        if self._turn() or self._left > 0:
            return True
        if not any(queue.live for queue in self._backend.queues()):
            return False
        self._backend.reap()
        self._backend.wait(_QUEUES, _NET)
        return True

    def _enqueue(self) -> None:
        batch = [self._envelope() for _ in range(self._random.randint(1, _BATCH))]
        created = [answer.id for answer in self._backend.enqueue(batch) if answer.created]
        self._left -= len(batch)
        self.told["stored"] += len(created)
        self._mine += created

    def _envelope(self) -> Envelope:
        draw = self._random
        keys: dict[str, Any] = {}
        if draw.random() < 0.6:
            keys |= {"idempotency_key": f"i{draw.randrange(_ONCE)}", "idempotency_ttl": _TTL, "key_scope": "global"}
        if self._unique and draw.random() < 0.3:
            strategy = draw.choice(["ignore_new", "cancel_existing"])
            keys |= {"unique_key": f"u{draw.randrange(_UNIQUE)}", "unique_strategy": strategy, "key_scope": "global"}
        alone = draw.random() < 0.6
        return an_envelope(id=_an_id(), job=f"j{draw.randrange(_SINGLE)}", single_instance=alone, **keys)

    def _turn(self) -> bool:
        settlements = [self._settlement(lease) for lease in self._held]
        for mark in self._marks:
            mark.unlink()
        claim = Claim(queues=_QUEUES, limit=_BATCH)
        result = self._backend.turn(Turn(owner=self._owner, settlements=settlements, claim=claim))
        assert result.alive
        self._take_up(result.leases)
        return bool(result.leases)

    def _take_up(self, leases: Sequence[Lease]) -> None:
        self._held = leases
        self._marks = [mark for lease in leases if lease.hold is Hold.HELD for mark in self._marks_of(lease)]
        for mark in self._marks:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))  # it is there: the key has two holders
        self.told["held"] += len(self._marks)
        self.told["busy"] += sum(lease.hold is Hold.BUSY for lease in leases)

    def _marks_of(self, lease: Lease) -> Iterator[Path]:
        letter = open_sealed(lease.envelope)
        if letter.idempotency_key is not None:
            yield self._records / f"once {letter.idempotency_key}"
        if letter.single_instance:
            yield self._records / f"single {letter.job}"

    def _settlement(self, lease: Lease) -> Settlement:
        if lease.hold is Hold.BUSY:
            return Settlement.snooze(lease, _NET, waits=lease.waits + 1)
        if lease.hold is Hold.DONE:
            return Settlement.skip(lease, "done")
        draw = self._random.random()
        if draw < 0.1 and lease.attempts < 5:
            return Settlement.nack(lease, 0)
        if draw < 0.2 and lease.interruptions < 5:
            return Settlement.release(lease)
        if draw < 0.3:
            return Settlement.abandon(lease, "gave up")
        return Settlement.ack(lease)

    def _meddle(self) -> None:
        """What people, supervisors and maintenance do meanwhile."""
        draw, backend = self._random, self._backend
        chosen = draw.sample(self._mine, min(len(self._mine), 4)) if self._mine else []
        match draw.randrange(16):
            case 0:
                backend.cancel(chosen, "not wanted")
            case 1:
                backend.retry(chosen)
            case 2:
                backend.prune({})
            case 3:
                backend.replay(Query(ids=tuple(chosen), limit=10))
            case 4:
                self._adopt()
            case 5:
                self._die()
            case 6:
                backend.reap()
            case 7 if self._held:
                backend.progress(self._held[0], b"0.5")

    def _adopt(self) -> None:
        owner, self._owner = self._owner, next(self._sessions)
        for mark in self._marks:
            mark.unlink()
        self._take_up(self._backend.open_session(Session(owner=self._owner), adopts=owner))

    def _die(self) -> None:
        """The session is reaped, and another one opened."""
        for mark in self._marks:
            mark.unlink()
        self._held, self._marks = (), []
        self._backend.reap(owner=self._owner, started=())  # but for what is locked: a later sweep finds that
        self._owner = next(self._sessions)
        self._backend.open_session(Session(owner=self._owner))
