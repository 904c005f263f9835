"""The lease protocol as a small machine whose every state can be visited.

Workers hold jobs under sessions; a session is one row in the store.  A worker speaks to the store by two calls, and each
is executed at once and whole, but *when* is not known:

    turn    settle what has ended, claim what is free; finds its session row, or does nothing but classify
    open    make the row of a new session, which may adopt an older one: its row goes, its leases change owner

A call is on its way until the store executes it, and its answer is on its way until the worker has it.  The network may
cut the worker off in between: the answer is lost, and the call, if it was not executed yet, may still be executed, at any
later time.  So after a cut the worker trusts nothing.  It opens a session under a new name, which adopts the session in
doubt, and if that call is cut too it sends the very same call again.  Where neither the old nor the new session is there, an
adoption opens none and says so: else a copy of it that comes late, when both have been reaped, would bring a session back to
life that no worker knows of.  What comes back and was unknown is taken up; what has ended is settled again.

(It would also do to try an adoption that was cut under another name each time.  The next name then adopts the oldest
session in doubt first, and goes on to the next while nothing comes back.)

A process may die, also between two calls; its supervisor then gives back what it knows to be this session's, and starts
another process.  A session that is not renewed expires, and so does a living one if its process is paused; what has
expired may be renewed until the reaper deletes it and gives its leases back, in one step.  Who renews learns that a
session is gone, and its worker drops what it has in hand.

Waiting is left out: a job that failed is free at once, but not for the turn that settled it.

Three steps are *faults*: a cut, a death, a pause.  Their number is bounded, so the world is finite and is visited in full.
`Rules` has a switch for each thing the protocol might have done without.  Every one of them, thrown, has a counterexample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.model.explorer import Exploration, Step, explore
from tests.model.lease_store import (
    BURNING,
    FINISHING,
    Answer,
    Call,
    End,
    Held,
    Job,
    Rules,
    Session,
    Worker,
    World,
    execute,
    give_back,
    held_by,
    is_over,
    leases_under,
)


@dataclass(frozen=True)
class Size:
    """How much world to visit."""

    workers: int
    jobs: int
    slots: int = 1  # leases a worker wants in hand
    retries: int = 1
    max_crashes: int = 2
    cuts: int = 0
    deaths: int = 0
    pauses: int = 0
    releases: int = 0

    def __str__(self) -> str:
        parts = {name: getattr(self, name) for name in ("slots", "cuts", "deaths", "pauses", "releases")}
        told = ", ".join(f"{name} {number}" for name, number in parts.items() if number)
        return f"{self.workers} workers x {self.jobs} jobs ({told})"


class Machine:
    def __init__(self, size: Size, rules: Rules) -> None:
        self.size = size
        self.rules = rules

    def start(self) -> World:
        size = self.size
        return World(
            jobs=(Job(),) * size.jobs,
            workers=tuple(Worker(call=Call(Session(at, 1))) for at in range(size.workers)),
            cuts=size.cuts,
            deaths=size.deaths,
            pauses=size.pauses,
            releases=size.releases,
        )

    def steps(self, world: World) -> Iterator[Step]:
        return (step._replace(after=self._tidy(step.after)) for step in self._possible(world))

    def _possible(self, world: World) -> Iterator[Step]:
        for at, worker in enumerate(world.workers):
            name = f"worker {'ABC'[at]}"
            if worker.alive:
                yield from self._run(world, at, worker, name)
                yield from self._talk(world, at, worker, name)
                yield from self._fail(world, at, worker, name)
            elif not is_over(world):
                yield from self._recover(world, at, worker, name)
        for call in sorted(world.late, key=repr):
            after, _ = execute(world._replace(late=world.late - {call}), call, self.rules)
            yield Step(f"the store executes {_kind(call)}, late", after)
        yield from self._sweep(world)

    def _run(self, world: World, at: int, worker: Worker, name: str) -> Iterator[Step]:
        """The handlers of a worker."""
        talked_about = worker.call.settlements or () if worker.call else ()
        for held in worker.hand:
            if held in talked_about:
                continue
            if held.stage == "ready" and self._may_start(world, worker):
                yield Step(f"{name} starts job {held.job}", _with_stage(world, at, held, "running"))
                if world.releases:
                    after = _with_stage(world, at, held, "release")._replace(releases=world.releases - 1)
                    yield self._and_send(f"{name} does not want job {held.job}", after, at)
            elif held.stage == "running":
                yield self._and_send(f"{name} finishes job {held.job}", _with_stage(world, at, held, "ack"), at)
                failed = "nack" if held.attempts < self.size.retries else "abandon"
                yield self._and_send(f"{name} fails job {held.job}", _with_stage(world, at, held, failed), at)

    def _may_start(self, world: World, worker: Worker) -> bool:
        """A lease is started while its session is fresh.  Its own clock tells the worker; the store's agrees."""
        fresh = worker.session in world.sessions and worker.session not in world.expired
        return fresh and not worker.doubts and worker.again is None

    def _talk(self, world: World, at: int, worker: Worker, name: str) -> Iterator[Step]:
        """The store's side of a worker's call."""
        if worker.call is None:
            return
        if worker.answer is None:
            after, answer = execute(world, worker.call, self.rules)
            done = _with_worker(after, at, after.workers[at]._replace(answer=answer))
            yield Step(f"the store executes {_kind(worker.call)}", done)
        else:
            heard = _with_worker(world, at, self._hear(worker, worker.call, worker.answer))
            yield self._and_send(f"{name} hears the answer", heard, at)

    def _and_send(self, name: str, world: World, at: int, *, fault: bool = False) -> Step:
        """The pump speaks whenever it is free and has something to say."""
        worker = world.workers[at]
        call = self._next_call(world, at, worker) if worker.call is None else None
        if call is None:
            return Step(name, world, fault)
        return Step(f"{name} and sends {_kind(call)}", _with_worker(world, at, worker._replace(call=call)), fault)

    def _next_call(self, world: World, at: int, worker: Worker) -> Call | None:
        if worker.again is not None:
            return worker.again
        if worker.doubts:
            if self.rules.after_a_cut == "read back":
                return Call(worker.doubts[0])
            return Call(_new_name(world, at), adopts=worker.doubts[0])
        if worker.session is None:
            return None if is_over(world) else Call(_new_name(world, at))
        ended = tuple(held for held in worker.hand if held.stage not in {"ready", "running"})
        limit = max(0, self.size.slots - len(worker.hand) + len(ended))
        if not ended and (not limit or is_over(world)):
            return None
        number = worker.turns + 1 if self.rules.after_a_cut == "resend" else 0
        return Call(worker.session, settlements=ended, limit=limit, number=number)

    def _hear(self, worker: Worker, call: Call, answer: Answer) -> Worker:
        worker = worker._replace(call=None, answer=None, again=None)
        if call.settlements is None:
            return self._hear_of_a_session(worker, call, answer)
        if not answer.alive:
            return worker._replace(session=None, hand=())
        kept = {held for held in worker.hand if held not in call.settlements}
        known = {held[:2] for held in kept}  # by number a lease may come a second time
        new = {held for held in answer.leases if held[:2] not in known}
        return worker._replace(hand=tuple(sorted(kept | new)), turns=call.number)

    def _hear_of_a_session(self, worker: Worker, call: Call, answer: Answer) -> Worker:
        if not answer.leases and len(worker.doubts) > 1:
            # Leases move together: where there were none, the next in doubt may have them.
            return worker._replace(doubts=worker.doubts[1:])
        still_to_settle = {held for held in worker.hand if held.stage in BURNING}
        if not answer.alive:
            return worker._replace(session=None, doubts=(), hand=tuple(sorted(still_to_settle)))
        known = {held[:2]: held for held in worker.hand}
        taken = {known.get(held[:2], held) for held in answer.leases}
        return worker._replace(session=call.session, doubts=(), hand=tuple(sorted(taken | still_to_settle)))

    def _fail(self, world: World, at: int, worker: Worker, name: str) -> Iterator[Step]:
        if worker.call is not None and world.cuts:
            yield self._and_send(f"{name} is cut off", self._cut(world, at, worker), at, fault=True)
        if world.deaths and (worker.session or worker.call):
            dead = _with_worker(_let_go(world, worker), at, worker._replace(alive=False, call=None, answer=None))
            yield Step(f"{name} dies", dead._replace(deaths=world.deaths - 1), fault=True)

    def _cut(self, world: World, at: int, worker: Worker) -> World:
        call = worker.call
        assert call is not None
        world = _let_go(world, worker)._replace(cuts=world.cuts - 1)
        worker = worker._replace(call=None, answer=None)
        opens = call.settlements is None
        sent_again = not self.rules.new_names if call.adopts else not opens and self.rules.after_a_cut == "resend"
        if sent_again:
            worker = worker._replace(again=call)
        elif not opens and self.rules.after_a_cut != "go on":
            worker = worker._replace(doubts=(call.session,))
        elif worker.doubts:
            worker = worker._replace(doubts=(*worker.doubts, call.session))
        return _with_worker(world, at, worker)

    def _recover(self, world: World, at: int, worker: Worker, name: str) -> Iterator[Step]:
        """The supervisor after its child died: it knows the session and which leases had begun."""
        if worker.session in world.sessions:
            begun = {(held.job, held.token) for held in worker.hand if held.stage not in {"ready", "release"}}
            after = self._reap(world, worker.session, lambda job, token: (job, token) in begun)
            yield Step(f"{name}'s supervisor gives back {worker.session}", _forget(after, at))
        yield self._and_send(f"{name} starts again", _with_worker(world, at, Worker()), at)

    def _sweep(self, world: World) -> Iterator[Step]:
        """Sessions run out, are renewed, or are swept away.  Nothing is between running out and sweeping but renewal."""
        for session in sorted(world.sessions):
            if not self._is_wanted(world, session) or session in world.expired:
                yield from self._reap_expired(world, session)
            elif world.pauses:
                after = world._replace(expired=world.expired | {session}, pauses=world.pauses - 1)
                yield Step(f"{session} expires", after, fault=True)
        for at, worker in enumerate(world.workers):
            if self.rules.renewals_are_answered and _is_unaware(world, worker):
                told = _with_worker(world, at, worker._replace(session=None, hand=()))
                yield self._and_send(f"worker {'ABC'[at]} hears that {worker.session} is gone", told, at)
        for session in sorted(world.expired):
            if self._is_wanted(world, session):
                yield Step(f"{session} is renewed", world._replace(expired=world.expired - {session}))
        if world.seen is not None:
            dead, leases = world.seen
            swept = give_back(world, leases, lambda job, token: True, self.size.max_crashes)
            yield Step("the reaper writes what it read", self._end(swept, dead)._replace(seen=None))

    def _reap_expired(self, world: World, session: Session) -> Iterator[Step]:
        if self.rules.reaper_is_atomic:
            yield Step(f"the reaper sweeps {session}", self._reap(world, session, lambda job, token: True))
        elif world.seen is None:
            yield Step(f"the reaper reads {session}", world._replace(seen=(session, leases_under(world, session))))

    def _is_wanted(self, world: World, session: Session) -> bool:
        """Whether a living process still renews it."""
        worker = world.workers[session.worker]
        return worker.alive and (
            session == worker.session
            or session in worker.doubts
            or (worker.call is not None and worker.call.session == session)
        )

    def _reap(self, world: World, dead: Session, started: Callable[[int, int], bool]) -> World:
        return self._end(give_back(world, leases_under(world, dead), started, self.size.max_crashes), dead)

    def _end(self, world: World, dead: Session) -> World:
        if not self.rules.reaping_ends_the_session:
            return world
        return world._replace(sessions=world.sessions - {dead}, expired=world.expired - {dead})

    def _tidy(self, world: World) -> World:
        """Forget late turns that can do nothing any more: their session is gone and no call on its way could open it."""
        if not world.late or not self.rules.turns_need_a_session:
            return world
        to_come = {call.session for call in world.late if call.settlements is None}
        to_come |= {worker.call.session for worker in world.workers if worker.call}
        late = frozenset(c for c in world.late if c.settlements is None or c.session in world.sessions | to_come)
        return world if late == world.late else world._replace(late=late)


def _is_unaware(world: World, worker: Worker) -> bool:
    """Whether its session is gone, and no answer on the way will say so."""
    return worker.alive and worker.call is None and worker.session is not None and worker.session not in world.sessions


def _let_go(world: World, worker: Worker) -> World:
    """The worker stops waiting: an answer on its way is lost, a call not executed yet may come late."""
    if worker.call is None or worker.answer is not None:
        return world
    return world._replace(late=world.late | {worker.call})


def _forget(world: World, at: int) -> World:
    return _with_worker(world, at, world.workers[at]._replace(session=None, doubts=(), hand=()))


def _with_worker(world: World, at: int, worker: Worker) -> World:
    return world._replace(workers=(*world.workers[:at], worker, *world.workers[at + 1 :]))


def _with_stage(world: World, at: int, held: Held, stage: str) -> World:
    worker = world.workers[at]
    hand = tuple(sorted(held._replace(stage=stage) if other == held else other for other in worker.hand))
    return _with_worker(world, at, worker._replace(hand=hand))


def _kind(call: Call) -> str:
    if call.settlements is not None:
        return f"a turn of {call.session}"
    return f"the opening of {call.session}" + (f", adopting {call.adopts}" if call.adopts else "")


def _new_name(world: World, at: int) -> Session:
    """A name that nothing speaks of any more is as good as one never used, and keeps the world small."""
    worker = world.workers[at]
    spoken_of = {worker.session, *worker.doubts, *world.sessions}
    spoken_of |= {name for call in world.late for name in (call.session, call.adopts)}
    return next(name for name in (Session(at, n) for n in range(1, 99)) if name not in spoken_of)


def _a_job_finishes_once(world: World) -> bool:
    for job in world.jobs:
        finished = [FINISHING[end.how] for end in job.ends if end.how in FINISHING]
        if finished and finished != [job.state]:
            return False
    return True


def _a_lease_ends_once(world: World) -> bool:
    """Every token given out has one end, in order, and only the newest may be open: a stale write would be a second end."""
    return all(
        [end.token for end in job.ends] == list(range(1, job.token + (job.state != "executing"))) for job in world.jobs
    )


def _counters_are_exact(world: World) -> bool:
    return all(
        job.attempts == sum(end.how in BURNING for end in job.ends)
        and job.crashes == sum(end.how == "crashed" for end in job.ends)
        for job in world.jobs
    )


def _answers_are_true(world: World) -> bool:
    """What a worker is told is, and stays, what the store holds; moves without a record may be answered as lost."""
    for worker in world.workers:
        if worker.answer is None or worker.call is None:
            continue
        for held, told in zip(worker.call.settlements or (), worker.answer.settled, strict=True):
            holds = End(held.token, held.stage) in world.jobs[held.job].ends
            if told == "lease_lost" and held.stage == "release":
                continue
            if holds != (told != "lease_lost"):
                return False
    return True


def _a_lease_has_a_session(world: World) -> bool:
    return all(job.state != "executing" or job.owner in world.sessions for job in world.jobs)


def _valid(world: World) -> list[tuple[Session, Held]]:
    """Leases that a worker may go by: its session lives, and it has not ended them."""
    return [
        (worker.session, held)
        for worker in world.workers
        if worker.alive and worker.session in world.sessions
        for held in worker.hand
        if held.stage in {"ready", "running"}
    ]


def _one_worker_at_a_time(world: World) -> bool:
    valid = [held.job for _, held in _valid(world)]
    return len(valid) == len(set(valid))


def _a_valid_lease_is_held(world: World) -> bool:
    return all(world.jobs[held.job][:3] == ("executing", held.token, session) for session, held in _valid(world))


def _nothing_is_forgotten(world: World) -> bool:
    """A worker in no doubt knows every lease its session holds, or is about to hear of it."""
    for worker in world.workers:
        opening = worker.call is not None and worker.call.settlements is None
        if not worker.alive or worker.doubts or worker.again or opening:
            continue
        known = {held[:2] for held in (*worker.hand, *(worker.answer.leases if worker.answer else ()))}
        if any(held[:2] not in known for held in held_by(world, worker.session)):
            return False
    return True


INVARIANTS: dict[str, Callable[[World], bool]] = {
    "a job finishes once": _a_job_finishes_once,
    "a lease ends once": _a_lease_ends_once,
    "counters are exact": _counters_are_exact,
    "answers are true": _answers_are_true,
    "a lease has a session": _a_lease_has_a_session,
    "no job is valid for two workers": _one_worker_at_a_time,
    "a valid lease is held": _a_valid_lease_is_held,
    "no lease is forgotten": _nothing_is_forgotten,
}


def explore_leases(
    size: Size, rules: Rules | None = None, invariants: Sequence[str] = tuple(INVARIANTS)
) -> Exploration:
    machine = Machine(size, rules or Rules())
    return explore(machine.start(), machine.steps, {name: INVARIANTS[name] for name in invariants}, is_over)
