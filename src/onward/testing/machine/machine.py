"""A machine that drives a backend and the model with the same commands and compares all that can be seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Protocol

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from onward.backend import Backend, Claim, Envelope, Hold, Inspection, Lease, Notes, Query, Session, StoredJob, Turn
from onward.base.clock import SECOND, from_micros
from onward.job.envelope import owned_key
from onward.job.states import State
from onward.testing.clock import FakeClock
from onward.testing.machine.asking import AskedModel
from onward.testing.machine.comparing import agree, jobs, leases, look, reaped
from onward.testing.machine.drawing import (
    OWNERS,
    QUEUES,
    Options,
    an_envelope,
    claims,
    idempotency_keys,
    narrowed,
    numbers,
    owners,
    plans,
    queries,
    settlement,
    settlings,
    several,
    spans,
    themes,
)
from onward.testing.machine.explained import reasons_bind
from onward.testing.machine.flow_rules import FlowRules
from onward.testing.machine.lane_rules import LaneRules, laned_themes
from onward.testing.machine.note_rules import NoteRules
from onward.testing.machine.schedule_rules import ScheduleRules

__all__ = ["ContractMachine", "InspectedBackend", "Tally", "check_against_model"]

Act = tuple[str, Options]  # a move and its options
HEEDED: Mapping[Hold, Act] = {Hold.BUSY: ("snooze", {}), Hold.DONE: ("skip", {})}
EVERYTHING = Query(limit=1_000_000)


class InspectedBackend(Backend, Inspection, Notes, Protocol):
    """A backend with `Inspection`: another one cannot be compared.  Notes are compared if it has that capability."""


NewStore = Callable[[FakeClock], Callable[[], InspectedBackend]]  # makes an empty store, and gives what opens it


@dataclass
class Tally:
    """How often each command was given, and what came of it."""

    commands: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)


class ContractMachine(LaneRules, NoteRules, ScheduleRules, FlowRules):
    """Sends every command of the contract to the backend and to the model, and compares the answers."""

    new_store: ClassVar[NewStore]
    tally: ClassVar[Tally]

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.model = AskedModel(self.clock)
        self.open = type(self).new_store(self.clock)
        self.backend = self.open()
        self.others: list[InspectedBackend] = []
        self.theme: Options = {}
        self.ids: list[str] = []
        self.leases: list[Lease] = []
        self.got: dict[str, StoredJob | None] = {}

    def teardown(self) -> None:
        try:
            self.tally.outcomes.update(self.model.events + reasons_bind(self.backend, self.model.every_id))
        finally:
            self.stop_listening()
            for client in (self.backend, *self.others):
                client.close()

    @initialize(theme=st.one_of(themes, themes, laned_themes), batch=st.lists(plans, min_size=2, max_size=5))
    def begin(self, theme: Options, batch: list[Options]) -> None:
        self.theme = theme
        for owner in OWNERS:
            self.open_session(owner, 60, None)
        self.enqueue(batch, retried=False)

    # Producers.

    @rule(batch=st.lists(plans, min_size=1, max_size=3), retried=st.booleans())
    def enqueue(self, batch: list[Options], retried: bool) -> None:
        envelopes = [self._envelope(plan) for plan in batch]
        # A first enqueue has new ids.  One that names a finished job is a repeated one, and any job of a batch may be
        # finished by another of it, which replaces it.
        repeats = any("again" in plan for plan in batch)
        retried = retried or (repeats and (len(batch) > 1 or envelopes[0].id in self.model.finished))
        answers = self._both("enqueue", envelopes, retried=retried)
        self._count("enqueue", *("created" if answer.created else "not created" for answer in answers))

    def _envelope(self, plan: Options) -> Envelope:
        if "again" in plan and self.ids:
            job_id = self.ids[-1 - plan["again"] % len(self.ids)]
        else:
            job_id = f"{plan.get('leading', 0)}{len(self.ids):031x}"
            self.ids.append(job_id)
        plan = self._in_lane({**self._shared(plan), **plan}, len(self.ids))
        return an_envelope(job_id, plan, self.clock.micros(), self.backend.capabilities)

    # Workers.

    def _shared(self, plan: Options) -> Options:
        """Return what all jobs of the story share; a member of a flow has no unique key."""
        keyed = "flow" in plan and not {"unique_key", "replaces"}.isdisjoint(self.theme)
        return {} if keyed else self.theme

    @rule(owner=owners, lease_for=st.sampled_from((30, 60)), adopts=st.none() | owners)
    def open_session(self, owner: str, lease_for: int, adopts: str | None) -> None:
        adopts = None if adopts == owner else adopts
        session = Session(owner=owner, lease_for=timedelta(seconds=lease_for), limits=self._limits())
        found = self.backend.open_session(session, adopts=adopts)
        expected = self.model.open_session(session, adopts=adopts)
        if found is None or expected is None:
            agree("whether there is anything to adopt", found, expected)
            self._count("adoption of no session")
            return
        agree("what is held", leases(found, ordered=False), leases(expected, ordered=False))
        self.leases += found
        self._count("open_session", *("adopted" for _ in found))

    @precondition(lambda self: self.model.live)
    @rule(owner=owners, claim=claims)
    def claim(self, owner: str, claim: Claim) -> None:
        """Open or renew a session, and claim."""
        found = self.backend.claim(replace(claim, owner=owner))
        self.model.open_session(Session(owner=owner, lease_for=claim.lease_for))
        self._follow(found, None)
        expected = self.model.turn(Turn(owner=owner, claim=claim)).leases
        agree("what is claimed", leases(found), leases(expected))
        self._take_up("claim", found)

    @precondition(lambda self: self.model.live)
    @rule(owner=owners, claim=claims, acts=st.lists(settlings, max_size=3))
    def work(self, owner: str, claim: Claim, acts: list[Act]) -> None:
        """Claim, put back what waits for a hold, and settle some of the rest, as a worker does."""
        self.claim(owner, claim)
        held = [lease for lease in reversed(self.leases) if self.model.holds_lease(lease, owner)]
        heeded = [(lease, HEEDED[lease.hold]) for lease in held if lease.hold in HEEDED]
        others = [lease for lease in held if lease.hold not in HEEDED]
        self._exchange([*heeded, *zip(others, acts, strict=False)], None, owner)

    @precondition(lambda self: self._something_is_held())
    @rule(number=numbers, act=settlings)
    def settle(self, number: int, act: Act) -> None:
        self._turn([(number, act)])

    @precondition(lambda self: self._something_is_held())
    @rule(acts=st.lists(st.tuples(numbers, settlings), min_size=2, max_size=5))
    def settle_some(self, acts: list[tuple[int, Act]]) -> None:
        self._turn(acts)

    @precondition(lambda self: self._something_is_held())
    @rule(acts=st.lists(st.tuples(numbers, settlings), min_size=1, max_size=3), claim=claims)
    def turn(self, acts: list[tuple[int, Act]], claim: Claim) -> None:
        self._turn(acts, claim)

    @rule(acts=st.lists(st.tuples(numbers, settlings), max_size=3), claim=st.none() | claims, owner=owners)
    def turn_of(self, acts: list[tuple[int, Act]], claim: Claim | None, owner: str) -> None:
        """Make a turn under any owner, whichever session holds the leases, alive or not."""
        self._turn(acts if self.leases else [], claim, owner)

    def _turn(self, acts: list[tuple[int, Act]], claim: Claim | None = None, owner: str | None = None) -> None:
        owner = owner or self._lease(acts[0][0]).owner
        self._exchange([(self._lease(at + number, owner), act) for at, (number, act) in enumerate(acts)], claim, owner)

    def _exchange(self, acts: Sequence[tuple[Lease, Act]], claim: Claim | None, owner: str) -> None:
        settlements = [self._with_gate(settlement(*act, lease, self.backend.capabilities)) for lease, act in acts]
        turn = Turn(owner=owner, settlements=settlements, claim=claim)
        found = self.backend.turn(turn)
        self._follow(found.leases, found.awaits_slots)
        expected = self.model.turn(turn)
        agree("how it was settled", found.settled, expected.settled)
        agree("what is claimed", leases(found.leases), leases(expected.leases))
        agree("the session", found.alive, expected.alive)
        agree("the number promoted", found.promoted, expected.promoted)
        agree("what should stop", sorted(found.cancel_requested), sorted(expected.cancel_requested))
        settled = (f"{each.move} {answer.answer}" for each, answer in zip(settlements, found.settled, strict=True))
        self._take_up("turn" if found.alive else "turn of a dead session", found.leases, *settled)

    def _take_up(self, command: str, found: Sequence[Lease], *outcomes: str) -> None:
        self.leases += found
        self._follow_members()
        self._count(command, *outcomes, *(f"claimed, {lease.hold}" for lease in found))

    def _something_is_held(self) -> bool:
        return any(job.state is State.EXECUTING for job in self.model.live.values())

    def _lease(self, number: int, owner: str | None = None) -> Lease:
        """Return a lease: valid ones first, this owner's before others', new ones before old ones; then stale ones."""
        ranked = self.leases[::-1]
        ranked.sort(key=lambda lease: (not self.model.holds_lease(lease, lease.owner), lease.owner != owner))
        return ranked[number % len(ranked)]

    @rule(owner=owners)
    def extend(self, owner: str) -> None:
        found, expected = self.backend.extend(owner), self.model.extend(owner)
        agree("the session", found.alive, expected.alive)
        agree("what should stop", sorted(found.cancel_requested), sorted(expected.cancel_requested))
        self._count("extend" if found.alive else "extend of a dead session")

    @precondition(lambda self: self.leases)
    @rule(number=numbers, note=st.sampled_from((b"10", b"90")))
    def progress(self, number: int, note: bytes) -> None:
        applied = self._both("progress", self._lease(number), note)
        self._count("progress" if applied else "progress of a lost lease")

    @precondition(lambda self: any(row.expires_at <= self.clock.micros() for row in self.model.sessions.values()))
    @rule()
    def reap(self) -> None:
        found, expected = self.backend.reap(), self.model.reap()
        agree("what was reaped", reaped(found, cause=None), reaped(expected, cause=None))
        self._count("reap", *(f"reaped, {each.to}" for each in found))

    @precondition(lambda self: self._something_is_held())
    @rule(owner=owners, begun=st.none() | several, cause=st.sampled_from((None, "killed by signal 9")))
    def reap_owner(self, owner: str, begun: list[int] | None, cause: str | None) -> None:
        held = [(job.id, job.delivery) for job in self.model.held_by(owner)]
        started = None if begun is None else [held[number] for number in begun if number < len(held)]
        found = self.backend.reap(owner=owner, started=started, cause=cause)
        expected = self.model.reap(owner=owner, started=started, cause=cause)
        agree("what was reaped", reaped(found, cause=cause), reaped(expected, cause=cause))
        self._count("reap_owner", *(f"reaped, {each.to}" for each in found))

    # People.

    @precondition(lambda self: self.model.live)
    @rule(which=several, reason=st.sampled_from(("not wanted", "too late")))
    def cancel(self, which: list[int], reason: str) -> None:
        answers = self._both("cancel", self._some_ids(which), reason)
        self._count("cancel", *(f"cancel answered {answer}" for answer in answers))

    @precondition(lambda self: any(job.available_at > self.clock.micros() for job in self.model.live.values()))
    @rule(which=several)
    def retry(self, which: list[int]) -> None:
        answers = self._both("retry", self._some_ids(which))
        self._count("retry", *["made due"] * sum(answers))

    @precondition(lambda self: self.model.finished)
    @rule(query=queries, which=st.none() | several, fresh=st.booleans())
    def replay(self, query: Query, which: list[int] | None, fresh: bool) -> None:
        found = self._both("replay", self._narrowed(query, which), fresh=fresh)
        skipped = (f"not replayed: {why.partition(' by ')[0]}" for why in found.skipped.values())
        self._count("replay", *["replayed"] * len(found.ids), *skipped)

    @precondition(lambda self: len(self.model.finished) > 1)
    @rule(query=queries, which=st.none() | several)
    def purge(self, query: Query, which: list[int] | None) -> None:
        removed = self._both("purge", self._narrowed(query, which))
        self._count("purge", *["purged"] * removed)

    @precondition(lambda self: len(self.model.finished) > 1)
    @rule(age=spans, states=st.frozensets(st.sampled_from(State)), limit=st.integers(1, 4))
    def prune(self, age: float, states: frozenset[State], limit: int) -> None:
        """Prune to the end, in batches."""
        cutoffs = dict.fromkeys(states, self.clock.micros() - round(age * SECOND))
        removed: Counter[State] = Counter()
        after: str | None = ""
        while after is not None:
            batch = self.backend.prune(cutoffs, after=after, limit=limit)
            for (_, state), count in batch.removed.items():
                removed[state] += count
            assert batch.next is None or batch.next > after, "the walk does not go on"
            after = batch.next
        agree("what was pruned", +removed, self.model.prune_all(cutoffs))
        self._count("prune", *["pruned"] * removed.total())

    @precondition(lambda self: self.model.holds)
    @rule(key=idempotency_keys)
    def forget_key(self, key: str) -> None:
        hold, _ = self._both("forget_key", owned_key("", key))
        self._count("forget_key", f"key asked for was {hold}")

    @rule(queue=st.sampled_from(QUEUES), paused=st.sampled_from((True, False, False)))
    def pause(self, queue: str, paused: bool) -> None:
        self._both("pause", queue, paused=paused)
        self._count("pause" if paused else "resume")

    @precondition(lambda self: self.ids)
    @rule(query=queries, which=st.none() | several, after=st.none() | numbers)
    def list_a_page(self, query: Query, which: list[int] | None, after: int | None) -> None:
        query = self._narrowed(query, which)
        if after is not None:
            query = replace(query, after=self._some_ids([after])[0])
        self._compare_jobs(query)
        self._count("list")

    def _narrowed(self, query: Query, which: list[int] | None) -> Query:
        return narrowed(query, None if which is None else tuple(self._some_ids(which)), self.backend.capabilities)

    def _some_ids(self, which: Iterable[int]) -> list[str]:
        """Return ids, those of live jobs first, the newest of them first; one that was never there when there are none."""
        known = [
            *sorted(self.model.live, reverse=True),
            *sorted({*self.ids, *self.model.finished} - {*self.model.live}),
        ]
        return [known[number % len(known)] if known else "never there" for number in which]

    # The world.

    @rule(seconds=st.sampled_from((1.0, 5.0, 1.0, 5.0, 10.0, 30.0, 60.0, 600.0, 1200.0)))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self._count("advance")

    @precondition(lambda self: self.model.moments())
    @rule(number=numbers)
    def advance_to_a_moment(self, number: int) -> None:
        """Set the clock to the microsecond at which something is due or over."""
        moments = self.model.moments()
        self.clock.set(from_micros(moments[number % len(moments)]))
        self._count("advance to a moment")

    @precondition(lambda self: self.backend.capabilities.shared)
    @rule(reopen=st.booleans())
    def go_on_with_another_client(self, reopen: bool) -> None:
        """Use a second client that is open too; or, when all were closed, a new one."""
        self.others.append(self.backend)
        if reopen and self.backend.capabilities.durable:
            for client in self.others:
                client.close()
            self.others.clear()
        self.backend = self.others.pop(0) if len(self.others) > 1 else self.open()
        self._count("another client" if self.others else "reopen")

    # What is compared after every command.

    @invariant()
    def all_that_can_be_seen_is_the_same(self) -> None:
        self._follow_members()
        self._compare_jobs(EVERYTHING)
        for job_id in {*self.ids, *self.model.live, *self.model.finished}:
            expected = self.model.get(job_id)
            # The list has shown that no other job was touched; it does not show tombstones and what is gone.
            if expected is None or expected.tombstone or expected != self.got.get(job_id):
                found = self.backend.get(job_id)
                agree(f"job {job_id}", [found], jobs([expected], [found]))
                self.got[job_id] = expected
        for queue in (None, *QUEUES):
            agree(f"counts({queue})", self.backend.counts(queue), self.model.counts(queue))
        agree("queues()", list(self.backend.queues()), list(self.model.queues()))
        seen = [(each.owner, each.expires_at, each.leases) for each in self.backend.sessions()]
        agree("sessions()", seen, self.model.seen_sessions())
        look(self.backend, self.model)

    def _compare_jobs(self, query: Query) -> None:
        found = list(self.backend.list(query))
        agree("the list of jobs", found, jobs(self.model.list(query), found))

    def _both(self, verb: str, *args: Any, **options: Any) -> Any:
        """Say the same to both; they must answer the same."""
        found, expected = (getattr(each, verb)(*args, **options) for each in (self.backend, self.model))
        agree(f"the answer to {verb}", found, expected)
        return found

    def _count(self, command: str, *outcomes: str) -> None:
        self.tally.commands[command] += 1
        self.tally.outcomes.update(outcomes)


def check_against_model(new_store: NewStore, settings: hypothesis_settings | None = None) -> Tally:
    """Run the machine over new stores.

    ``new_store(clock)`` makes an empty store and returns a function that opens a client on it.
    """

    class Machine(ContractMachine):
        tally: ClassVar[Tally] = Tally()

    Machine.new_store = staticmethod(new_store)
    run_state_machine_as_test(Machine, settings=settings)
    return Machine.tally
