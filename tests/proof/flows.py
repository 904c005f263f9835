"""Random flows under fire: worker processes are killed, and so is the server, while people cancel and retry.

Every run writes a line when it begins and one when it ends, in a file that is only appended to.  Then the rows of the store
and these lines are compared with the rules of flows, which are said once more in `onward.testing.machine`.  A line counts
if its delivery is the last of its job: a run that lost its lease may go on for a while, and what it does is fenced.
"""

from __future__ import annotations

import logging
import logging.handlers
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from onward import Onward
from onward.backend import FlowRow, Query, StoredJob
from onward.errors import BackendUnavailable
from onward.flow.graph import NodeState
from onward.job.membership import When
from onward.job.states import State
from onward.testing.machine.model_flows import state_of_waiting
from tests.proof.crowd import Tell
from tests.proof.flow_shop import GROWN, Shop, shop
from tests.proof.kills import Fleets
from tests.proof.ledger import Ledger, damage_of, scheme_of

__all__ = ["Flow", "Judge", "Lines", "of_processes_under_fire"]

T = TypeVar("T")

logger = logging.getLogger(__name__)

_PATIENCE = 1_800.0
_APP = "tests.proof.flow_shop:jobs"
_MOST_JOBS = 50
_LAST = "last"
_WHENS: tuple[When, ...] = ("succeeded", "succeeded", "failed", "finished")
NET = "should have gone on before"

# Of a thousand jobs, so many of each kind.
_MIX = {"succeed": 860, "slow": 60, "fail": 50, "stumble": 28, "crash": 2}


@dataclass
class Flow:
    """A flow that was enqueued, what its jobs do, and what people did to it."""

    id: str
    does: dict[str, str]  # by job
    growers: dict[str, str]  # jobs that add others, with the node that gets them
    stops: bool
    hit: bool = False  # a job of it was cancelled
    cancelled: bool = False
    retried_at: int | None = None  # how many lines the log had then
    completed_before: frozenset[str] = frozenset()  # nodes that a retry left as they were

    @property
    def retried(self) -> bool:
        return self.retried_at is not None

    def note_retry(self, row: FlowRow, lines: int) -> None:
        """Note what is to stay as it is: a retry runs nothing again that has completed, whatever comes before it now."""
        self.retried_at = lines
        self.completed_before = frozenset(node.name for node in row.nodes if node.state is NodeState.COMPLETED)


@dataclass
class Lines:
    """What the runs wrote: where in the file, by job and delivery."""

    begun: dict[tuple[str, int], int] = field(default_factory=dict)
    ended: dict[tuple[str, int], int] = field(default_factory=dict)
    runs: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)  # beginning of each job
    last: dict[str, int] = field(default_factory=dict)
    results: dict[tuple[str, int], dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    begun_twice: int = 0

    @classmethod
    def read(cls, log: Path) -> Lines:
        lines = cls()
        for place, line in enumerate(log.read_text().splitlines()):
            sign, job_id, delivery, *more = line.split()
            run = job_id, int(delivery)
            if sign == "+":
                lines.begun_twice += run in lines.begun
                lines.begun[run] = place
                lines.first.setdefault(job_id, place)
                lines.last[job_id] = place
                lines.runs[job_id] += 1
            elif sign == "-":
                lines.ended[run] = place
            else:
                lines.results[run][more[0]] = int(more[1])
        return lines


def of_processes_under_fire(
    store: Any, folder: Path, *, flows: int, kills: int, server_kills: int, supervisors: int, tell: Tell
) -> Ledger:
    """Kill supervisors and their processes, two each, and the server, while they work at random flows."""
    url, log, errors, dice = store.url(), folder / "runs.log", folder / "errors.log", random.Random(7)
    log.touch()
    with closing(Onward(url, max_crashes=1000).connect()) as client:
        backend: Any = client.parts().backend
        begun = time.monotonic()
        with Fleets(url, log, _APP, number=supervisors, errors=errors) as fleets:
            people = _People(client, backend, dice)
            servers = set(dice.sample(range(kills), min(kills, server_kills)))
            for blow in range(kills):
                people.enqueue(flows * (blow + 1) // kills - len(people.flows))
                if blow in servers:
                    store.kill_server()
                fleets.strike(dice.choice(("child", "child", "supervisor", "group")), dice)
                _persist(lambda: fleets.await_life(client, log, dice.uniform(0.05, 0.4)))
                people.meddle()
                tell(len(people.flows))
            stuck = people.wait(tell)
            people.retry_some(log)
            stuck += people.wait(tell)
            fleets.stop()
        alarms = _alarms(errors, backend)
        ledger = Judge(backend, people.flows, Lines.read(log)).ledger(scheme_of(url))
    ledger.figures.update({**fleets.faults, "kills of servers": len(servers), "seconds": time.monotonic() - begun})
    ledger.flaws.update({"flows stuck": stuck, "alarms of the net": alarms})
    ledger.errors.extend(damage_of(url))
    return ledger


class _People:
    """Those who enqueue flows, cancel some of them or a job of them, and retry some that failed."""

    def __init__(self, client: Onward, backend: Any, dice: random.Random) -> None:
        self.flows: list[Flow] = []
        self._client = client
        self._calls: Shop = shop(client)
        self._backend = backend
        self._dice = dice

    def enqueue(self, count: int) -> None:
        for _ in range(count):
            flow, sealed = _a_random_flow(self._client, self._calls, self._dice)
            with suppress(BackendUnavailable):
                self._backend.enqueue(sealed)
                self.flows.append(flow)
                continue
            # It may be stored, and parts of it may have ended.
            _persist(lambda: self._backend.enqueue(sealed, retried=True))  # noqa: B023
            self.flows.append(flow)

    def meddle(self) -> None:
        """Cancel a flow, and a job of another."""
        recent = [flow for flow in self.flows[-20:] if not flow.hit]
        if len(recent) < 2:
            return
        flow, other = self._dice.sample(recent, 2)
        flow.cancelled = _persist(lambda: self._backend.cancel_flow(flow.id, "not wanted")) or flow.cancelled
        if not other.cancelled:
            other.hit = True
            _persist(lambda: self._backend.cancel([self._dice.choice(sorted(other.does))], "not wanted"))

    def retry_some(self, log: Path) -> None:
        """Retry a tenth of the flows: what failed fails again, what was cancelled runs now, what has run does not."""
        for flow in self._dice.sample([flow for flow in self.flows if not flow.hit], len(self.flows) // 10):
            row = _persist(lambda: self._backend.flow(flow.id))  # noqa: B023
            flow.note_retry(row, len(log.read_bytes().splitlines()))
            _persist(lambda: self._backend.retry_flow(flow.id))  # noqa: B023

    def wait(self, tell: Tell) -> int:
        """Wait until every flow is over; return how many are not."""
        deadline = time.monotonic() + _PATIENCE
        while running := _persist(lambda: self._backend.flows(running=True)):
            if time.monotonic() > deadline:
                return len(running)
            tell(-len(running))
            time.sleep(0.1)
        return 0


def _a_random_flow(client: Onward, calls: Shop, dice: random.Random) -> tuple[Flow, list[Any]]:
    """Build a flow of up to fifty jobs, whose last node comes after all others, either way."""
    stops = dice.random() < 0.1
    flow = client.flow("under-fire", stop_on_failure=stops)
    names = [f"n{number}" for number in range(dice.randint(1, 7))]
    kinds: list[str] = []
    for place, name in enumerate(names):
        after = [each for each in names[:place] if dice.random() < 0.4]
        when: When = dice.choice(_WHENS) if after else "succeeded"
        does = dice.choices(list(_MIX), list(_MIX.values()), k=dice.randint(1, (_MOST_JOBS - 2) // len(names)))
        flow.map(calls.step, list(enumerate(does)), node=name, after=after, when=when)
        kinds += does
    grows = dice.random() < 0.3
    if grows:
        flow.add(calls.grow, "grown", node="growing", after=names[-1], when="finished")
        flow.node("grown", after="growing")
        names += ["growing", "grown"]
        kinds.append("grow")
    flow.add(calls.last, names, node=_LAST, after=names, when="finished")
    sealed = flow.sealed()
    ids = [each.id for each in sealed]
    growers = {each.id: "grown" for each in sealed if each.node == "growing"}
    return Flow(flow.id, dict(zip(ids, [*kinds, "last"], strict=True)), growers, stops), sealed


def _alarms(errors: Path, backend: Any) -> int:
    """How often a sweep found a flow that was overlooked: in the workers, and now."""
    heard = logging.handlers.BufferingHandler(10_000)
    logging.getLogger("onward").addHandler(heard)
    try:
        backend.reap()
    finally:
        logging.getLogger("onward").removeHandler(heard)
    return errors.read_text(errors="replace").count(NET) + sum(NET in each.getMessage() for each in heard.buffer)


def _persist(act: Callable[[], T]) -> T:
    """Try again while the server is away."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return act()
        except BackendUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


@dataclass
class Judge:
    """Compares the rows of every flow with the rules, and with what its runs wrote."""

    backend: Any
    flows: list[Flow]
    lines: Lines
    flaws: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)

    def ledger(self, engine: str) -> Ledger:
        for flow in self.flows:
            row = self.backend.flow(flow.id)
            if row is None:
                self.flaws["lost"] += 1
                continue
            self.seen[f"flows {row.state}"] += 1
            jobs = {node.name: self._members(row, node.name) for node in row.nodes}
            self._check_nodes(flow, row, jobs)
            self._check_order(flow, row, jobs)
            self._check_jobs(flow, row, jobs)
            self._check_last(flow, jobs)
        self.flaws["begun twice under one delivery"] = self.lines.begun_twice
        figures: dict[str, float] = {
            "flows": len(self.flows),
            "jobs": self.seen.pop("jobs", 0),
            "runs": len(self.lines.begun),
            **dict(sorted(self.seen.items())),
            "flows cancelled by a person": sum(flow.cancelled for flow in self.flows),
            "flows retried": sum(flow.retried for flow in self.flows),
        }
        names = (
            "lost",
            "nodes against the rules",
            "jobs that ended as they should not",
            "jobs begun too early",
            "jobs of nodes that never opened, begun",
            "run twice without a cause",
            "last jobs not run once",
            "results missed",
            "children missed",
        )
        return Ledger(f"flows under fire on {engine}", figures, dict.fromkeys(names, 0) | {**self.flaws})

    def _members(self, row: FlowRow, node: str) -> list[StoredJob]:
        found = list(self.backend.list(Query(flow=row.id, node=node, limit=1_000)))
        self.seen["jobs"] += len(found)
        self.seen["crashes"] += sum(job.crashes for job in found)
        self.seen["most crashes of a job"] = max(self.seen["most crashes of a job"], *(job.crashes for job in found), 0)
        return found

    def _check_nodes(self, flow: Flow, row: FlowRow, jobs: dict[str, list[StoredJob]]) -> None:
        """Every node is what the rules make of those before it, and of its own jobs; or completed before a retry.

        What comes before such a node may have failed then, and completed since: it ran when it should.
        """
        states = {node.name: node.state.value for node in row.nodes}
        for node in row.nodes:
            failed = any(job.state is not State.COMPLETED for job in jobs[node.name])
            opened = state_of_waiting(node.when, [states[name] for name in node.after])
            expected = opened if opened != "open" else "failed" if failed else "completed"
            expected = "completed" if node.name in flow.completed_before else expected
            if states[node.name] != expected:
                self.flaws["nodes against the rules"] += 1
                of_jobs = Counter(job.state.value for job in jobs[node.name])
                logger.error(
                    "flow %s: node %s (%s %s) is %s and should be %s: its jobs are %s, all nodes %s",
                    *(row.id, node.name, node.when, node.after, states[node.name], expected, dict(of_jobs), states),
                )

    def _check_order(self, flow: Flow, row: FlowRow, jobs: dict[str, list[StoredJob]]) -> None:
        """No job began before the last run of each that it comes after had ended.

        In a flow that was retried, what waits for an end of either kind may have run before what failed runs again.
        """
        states = {node.name: node.state.value for node in row.nodes}
        for node in row.nodes:
            begun = [self.lines.first[job.id] for job in jobs[node.name] if job.id in self.lines.first]
            if states[node.name] in ("passed_over", "skipped"):
                last = [self.lines.last[job.id] for job in jobs[node.name] if job.id in self.lines.last]
                self.flaws["jobs of nodes that never opened, begun"] += sum(
                    place >= (flow.retried_at or 0) for place in last
                )
            if not begun or (flow.retried and node.when != "succeeded"):
                continue
            before = [job for name in node.after for job in jobs[name] if job.state is not State.CANCELLED]
            ends = [self.lines.ended.get((job.id, job.delivery)) for job in before]
            # One without a line never ran.
            self.flaws["jobs begun too early"] += any(end is None or end > min(begun) for end in ends)

    def _check_jobs(self, flow: Flow, row: FlowRow, jobs: dict[str, list[StoredJob]]) -> None:
        """Every job ended as it was told to, unless its node never opened or a person came between."""
        never = {node.name for node in row.nodes if node.state.value in ("passed_over", "skipped")}
        known = {job.id for found in jobs.values() for job in found}
        self.flaws["lost"] += len(flow.does.keys() - known)
        for name, found in jobs.items():
            for job in found:
                ends = State.DISCARDED if flow.does.get(job.id) == "fail" else State.COMPLETED
                may_be_cancelled = name in never or flow.hit or row.stopped or row.cancelled is not None
                right = job.state is ends or (may_be_cancelled and job.state is State.CANCELLED)
                self.flaws["jobs that ended as they should not"] += not right
                if not flow.retried:
                    reasons = job.attempts + job.crashes + job.interruptions
                    self.flaws["run twice without a cause"] += self.lines.runs[job.id] > reasons

    def _check_last(self, flow: Flow, jobs: dict[str, list[StoredJob]]) -> None:
        """The last job ran once, with all results; jobs that add others have added them once."""
        (last,) = jobs[_LAST]
        if last.state is State.COMPLETED:
            self.flaws["last jobs not run once"] += last.attempts != 1
            seen = self.lines.results[last.id, last.delivery]
            there = {name: sum(job.state is State.COMPLETED for job in jobs[name]) for name in seen}
            self.flaws["results missed"] += not seen or (seen != there and not flow.retried)
        for grower, node in flow.growers.items():
            (parent,) = [job for job in jobs["growing"] if job.id == grower]
            if parent.state is State.COMPLETED:
                self.flaws["children missed"] += len(jobs[node]) != GROWN
