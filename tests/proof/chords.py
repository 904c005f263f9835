"""A chord of very many members: what comes after them starts once, and the client that adds them needs no more memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from onward import Onward, State
from onward.backend import Query
from tests.proof.crowd import Tell
from tests.proof.flow_shop import shop
from tests.proof.kills import Fleets
from tests.proof.ledger import Ledger, damage_of, scheme_of

__all__ = ["of_workers"]

_APP = "tests.proof.flow_shop:jobs"
_PATIENCE = 1_800.0
_SUPERVISORS = 4  # of two worker processes each
_WARM = 0.2  # of the members; from then on its memory may not grow
_MOST_GROWN = 16 * 2**20  # bytes: what one chunk takes, and what the allocator does with it


def of_workers(store: Any, folder: Path, *, members: int, tell: Tell) -> Ledger:
    """Fill a batch while eight worker processes run its jobs."""
    url, log = store.url(), folder / "runs.log"
    name = f"a chord on {scheme_of(url)}"
    log.touch()
    with closing(Onward(url).connect()) as client:
        backend: Any = client.parts().backend
        calls = shop(client)
        memory: list[int] = []
        with Fleets(url, log, _APP, number=_SUPERVISORS) as fleets:
            begun = time.monotonic()
            with client.batch("chord", on_success=calls.done.call()) as batch:
                batch.add_many(calls.member, _numbers(members, memory, tell))
            filled = time.monotonic()
            state = _wait(batch.handle, begun + _PATIENCE, tell)
            seconds = time.monotonic() - begun
            fleets.stop()
        nodes = {node.name: node for node in batch.handle.nodes()}
        ended = client.counts()
        (done,) = backend.list(Query(flow=batch.id, node="on_success", limit=10))
    lines = [line for line in log.read_text().splitlines() if line.startswith("+")]
    return Ledger(
        name,
        {
            "members": members,
            "worker processes": 2 * _SUPERVISORS,
            "seconds": seconds,
            "jobs a second": members / seconds,
            "seconds to fill it": filled - begun,
            "MiB that the client grew": (memory[-1] - memory[0]) / 2**20,
        },
        {
            "flows stuck": int(state != "completed"),
            "lost": members - nodes["members"].total + members + 1 - ended[State.COMPLETED],
            "starts of the last job too many or too few": abs(len(lines) - 1),
            "runs of it that were settled, too many or too few": abs(done.attempts - 1),
            "memory that grows with the members": int(memory[-1] - memory[0] > _MOST_GROWN),
        },
        damage_of(url),
    )


def _numbers(members: int, memory: list[int], tell: Tell) -> Iterator[tuple[int]]:
    """Yield the arguments; note the memory of this process when a fifth is added, and at the end."""
    for number in range(members):
        if number == round(members * _WARM):
            memory.append(_resident())
        if number % 10_000 == 0:
            tell(number)
        yield (number,)
    memory.append(_resident())


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def _wait(handle: Any, deadline: float, tell: Tell) -> str:
    while (state := handle.state()) == "running" and time.monotonic() < deadline:
        tell(-1)
        time.sleep(0.1)
    return str(state)
