"""The store's side of the lease protocol: jobs and sessions, and what each call makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple


@dataclass(frozen=True)
class Rules:
    """The protocol, when nothing is given; otherwise the protocol with one thing done wrong."""

    fence: Literal["token", "state", "none"] = "token"  # what a settlement must still find
    after_a_cut: Literal["adopt", "go on", "read back", "resend"] = "adopt"
    new_names: bool = False  # an adoption that was cut is not sent again as it was, but tried under another name
    adoption_needs_a_row: bool = True  # where neither the old nor the new session is there, it opens none
    turns_need_a_session: bool = True
    reaper_is_atomic: bool = True
    reaping_ends_the_session: bool = True
    the_dead_are_classified: bool = True  # a settlement without a session is answered by evidence
    renewals_are_answered: bool = True  # who renews a session that is gone tells its worker


class Session(NamedTuple):
    worker: int
    number: int

    def __str__(self) -> str:
        return f"{'ABC'[self.worker]}{self.number}"


class End(NamedTuple):
    """How one lease ended, as the store wrote it: a settling move, "crashed" or "interrupted"."""

    token: int
    how: str


class Job(NamedTuple):
    state: str = "available"
    token: int = 0
    owner: Session | None = None
    attempts: int = 0
    crashes: int = 0
    ends: tuple[End, ...] = ()


class Held(NamedTuple):
    """A lease in a worker's hand.  It is ready, running, or has ended and waits to be settled by that move."""

    job: int
    token: int
    attempts: int
    stage: str = "ready"


class Call(NamedTuple):
    session: Session
    adopts: Session | None = None
    settlements: tuple[Held, ...] | None = None  # None: this call opens a session
    limit: int = 0
    number: int = 0  # only where turns are sent again by number


class Answer(NamedTuple):
    leases: tuple[Held, ...]
    settled: tuple[str, ...] = ()
    alive: bool = True


class Worker(NamedTuple):
    alive: bool = True
    session: Session | None = None
    doubts: tuple[Session, ...] = ()  # sessions that may hold something of mine, oldest first
    hand: tuple[Held, ...] = ()
    call: Call | None = None  # what it waits for
    answer: Answer | None = None  # its answer, on the way
    turns: int = 0
    again: Call | None = None  # the call to send again, where calls are sent again


class World(NamedTuple):
    jobs: tuple[Job, ...]
    workers: tuple[Worker, ...]
    sessions: frozenset[Session] = frozenset()
    expired: frozenset[Session] = frozenset()
    late: frozenset[Call] = frozenset()  # cut off and not executed yet
    seen: tuple[Session, tuple[tuple[int, int], ...]] | None = None  # what a reaper has read: session, jobs and tokens
    granted: frozenset[tuple[int, int, Session, int]] = frozenset()  # job, token, session, number of the turn
    cuts: int = 0
    deaths: int = 0
    pauses: int = 0
    releases: int = 0


FINISHING = {"ack": "completed", "abandon": "discarded"}
BURNING = {"ack", "nack", "abandon"}  # the moves that end a run


def execute(world: World, call: Call, rules: Rules) -> tuple[World, Answer]:
    return _open(world, call, rules) if call.settlements is None else _turn(world, call, rules)


def _open(world: World, call: Call, rules: Rules) -> tuple[World, Answer]:
    if (
        rules.adoption_needs_a_row
        and call.adopts is not None
        and world.sessions.isdisjoint({call.session, call.adopts})
    ):
        return world, Answer((), alive=False)
    sessions = (world.sessions | {call.session}) - {call.adopts}
    jobs = tuple(
        job._replace(owner=call.session) if job.state == "executing" and job.owner == call.adopts is not None else job
        for job in world.jobs
    )
    world = world._replace(jobs=jobs, sessions=frozenset(sessions), expired=world.expired - {call.session, call.adopts})
    return world, Answer(held_by(world, call.session))


def held_by(world: World, session: Session | None) -> tuple[Held, ...]:
    return tuple(
        Held(at, job.token, job.attempts)
        for at, job in enumerate(world.jobs)
        if job.state == "executing" and job.owner == session
    )


def _turn(world: World, call: Call, rules: Rules) -> tuple[World, Answer]:
    assert call.settlements is not None
    alive = call.session in world.sessions
    if not alive and rules.turns_need_a_session:
        settled = tuple(_classify(world, held, rules, dead=True) for held in call.settlements)
        return world, Answer((), settled, alive=False)
    if rules.after_a_cut == "resend":
        granted = _granted(world, call)
        if granted:
            return world, Answer(granted, tuple(_classify(world, held, rules) for held in call.settlements))
    jobs = list(world.jobs)
    settled = []
    for held in call.settlements:
        job = jobs[held.job]
        if _fence(job, held, call.session, rules):
            jobs[held.job] = _settle(job, held)
            settled.append("applied")
        else:
            settled.append(_classify(world, held, rules))
    free = set(range(len(jobs))) - {held.job for held in call.settlements}
    leases = []
    for at in sorted(free):
        if jobs[at].state == "available" and len(leases) < call.limit:
            jobs[at] = jobs[at]._replace(state="executing", token=jobs[at].token + 1, owner=call.session)
            leases.append(Held(at, jobs[at].token, jobs[at].attempts))
    world = world._replace(jobs=tuple(jobs))
    if rules.after_a_cut == "resend":
        now_granted = {(held.job, held.token, call.session, call.number) for held in leases}
        world = world._replace(granted=world.granted | now_granted)
    return world, Answer(tuple(leases), tuple(settled))


def _granted(world: World, call: Call) -> tuple[Held, ...]:
    """What this very turn, by its number, was granted before and its owner still has."""
    return tuple(
        held
        for held in held_by(world, call.session)
        if (held.job, held.token, call.session, call.number) in world.granted
    )


def _fence(job: Job, held: Held, session: Session, rules: Rules) -> bool:
    if rules.fence == "none":
        return True
    if rules.fence == "state":
        return job.state == "executing"
    return job.state == "executing" and job.token == held.token and job.owner == session


def _settle(job: Job, held: Held) -> Job:
    return job._replace(
        state=FINISHING.get(held.stage, "available"),
        owner=None,
        attempts=job.attempts + (held.stage in BURNING),
        ends=(*job.ends, End(held.token, held.stage)),
    )


def _classify(world: World, held: Held, rules: Rules, *, dead: bool = False) -> str:
    """Answer a settlement that was not applied, from what the store keeps: records of failed runs, and the finished job."""
    if dead and not rules.the_dead_are_classified:
        return "lease_lost"
    job = world.jobs[held.job]
    for token, how in job.ends:
        if token == held.token and how in {"nack", "abandon", "crashed"}:  # these have a record
            return "already_applied" if how == held.stage else "lease_lost"
    if job.token == held.token and job.state == FINISHING.get(held.stage):
        return "already_applied"
    return "lease_lost"


def give_back(world: World, taken: tuple[tuple[int, int], ...], started: Callable[[int, int], bool], cap: int) -> World:
    jobs = list(world.jobs)
    for at, token in taken:
        job = jobs[at]
        crashed = started(at, token)
        jobs[at] = job._replace(
            state="discarded" if crashed and job.crashes + 1 >= cap else "available",
            owner=None,
            crashes=job.crashes + crashed,
            ends=(*job.ends, End(token, "crashed" if crashed else "interrupted")),
        )
    return world._replace(jobs=tuple(jobs))


def leases_under(world: World, dead: Session) -> tuple[tuple[int, int], ...]:
    return tuple((at, job.token) for at, job in enumerate(world.jobs) if job.state == "executing" and job.owner == dead)


def is_over(world: World) -> bool:
    return all(job.state in {"completed", "discarded"} for job in world.jobs)
