"""Jobs move from store to store while the mover is killed again and again: every job is there once, and what it was."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any

import msgspec

from onward.backend import Query, StoredJob
from onward.backends.opening import open_store
from onward.cli.exits import Exit
from onward.config import load
from onward.contract.transfer import TRANSFERABLE
from onward.errors import SignatureRejected
from onward.job.envelope import Sealed, open_sealed
from onward.security.key_ring import KeyRing
from onward.security.signing import Signing
from onward.testing import FakeClock
from onward.testing.contract.builders import an_envelope
from onward.testing.contract.transfer import a_varied_queue
from tests.proof.crowd import Tell
from tests.proof.ledger import Ledger, scheme_of

__all__ = ["between_stores"]

_PAGE = 1_000
_PATIENCE = 600.0
_SIGNING = Signing(KeyRing.parse("key:" + "k" * 43, "here"), "require", "default", unverified=lambda *_: None)


def between_stores(urls: Sequence[str], *, jobs: int, kills: int, tell: Tell) -> Ledger:
    """From each store to the next, with so many kills on every way."""
    dice = random.Random(7)
    _fill(urls[0], jobs)
    before = _contents(urls[0])
    dead = changed = lost = doubled = refused = 0
    errors: list[str] = []
    begun = time.monotonic()
    for number, (source, target) in enumerate(pairwise(urls)):
        for _ in range(kills):
            dead += _strike(source, target, after=dice.uniform(0, len(before) / 15_000))
            tell(dead)
        with _move(source, target) as mover:
            _, said = mover.communicate(timeout=_PATIENCE)
        if mover.returncode not in (Exit.OK, Exit.NOTHING):
            errors.append(f"{scheme_of(source)} -> {scheme_of(target)} ended with {mover.returncode}: {said[-500:]}")
        after, left = _contents(target), _contents(source)
        lost += len(before.keys() - after.keys())
        doubled += len(left) + len(after.keys() - before.keys())
        changed += sum(after[job_id] != before[job_id] for job_id in before.keys() & after.keys())
        refused += jobs - _verified(target)
        tell(number)
    way = " -> ".join(scheme_of(url) for url in urls)
    return Ledger(
        f"moves {way}",
        {"jobs": len(before), "kills of transfers": dead, "seconds": time.monotonic() - begun},
        {"lost": lost, "in both": doubled, "changed": changed, "signatures refused": refused},
        errors,
    )


def _fill(url: str, jobs: int) -> None:
    """Jobs in every state that can move, with keys, priorities and delays; all but a dozen are signed."""
    clock = FakeClock()
    with closing(open_store(load({"url": url}), clock)) as store:
        backend: Any = store
        a_varied_queue(backend, clock)
        for start in range(0, jobs, _PAGE):
            backend.enqueue(
                [
                    an_envelope(
                        priority=number % 3,
                        delay=60 * (number % 5 == 0),
                        unique_key=f"key-{number}" if number % 7 == 0 else None,
                        payload={"number": number},
                        sign=_SIGNING.sign,
                    )
                    for number in range(start, min(jobs, start + _PAGE))
                ]
            )


def _contents(url: str) -> dict[str, bytes]:
    """Every job that can be transferred, by its id."""
    with closing(open_store(load({"url": url}))) as store:
        return {job.id: msgspec.msgpack.encode(job) for job in _jobs(store)}


def _verified(url: str) -> int:
    """How many a worker would run that requires signatures."""
    with closing(open_store(load({"url": url}))) as store:
        return sum(map(_is_verified, _jobs(store)))


def _is_verified(job: StoredJob) -> bool:
    try:
        open_sealed(Sealed(job.id, job.queue, job.data), namespace="default", verify=_SIGNING.verify)
    except SignatureRejected:
        return False
    return True


def _jobs(store: Any) -> Iterator[Any]:
    after = ""
    while page := store.list(Query(states=TRANSFERABLE, after=after, limit=_PAGE)):
        yield from page
        after = page[-1].id


def _move(source: str, target: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "onward", "move", "--from", source, "--to", target, "--batch", "100"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def _strike(source: str, target: str, *, after: float) -> bool:
    """Kill a mover so long after it has begun.  False if it was through."""
    with _move(source, target) as mover:
        assert mover.stderr is not None
        for line in mover.stderr:
            if "is paused at both ends" in line:
                break
        time.sleep(after)  # where it is by then is left to chance
        mover.kill()
        return mover.wait() < 0
