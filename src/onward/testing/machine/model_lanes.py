"""The limits and gates of the model: who may start, counted anew for every question.

Which lane's turn it is depends on where a process has stopped before, and the contract leaves that open.  So the model does
not choose: it is told what a backend has claimed and booked (`Followed`), and says whether the contract allows it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from onward.backend import Kind, LimitRow, LimitState
from onward.base.clock import SECOND
from onward.flow.limits import Bounds
from onward.job.lease import LAST_INSTANT
from onward.job.settlement import GateChange
from onward.job.states import State
from onward.testing.machine.model_job import ModelJob, Scope

__all__ = ["Followed", "ModelLanes", "Place"]

HORIZON = 15 * 60 * SECOND
Place = tuple[Kind, str, Scope]  # a limit by kind and name, and what it counts


@dataclass
class Followed:
    """What a backend did in a turn: the jobs it claimed, in order, and when each job that it has scheduled is due."""

    claimed: list[str]
    scheduled: dict[str, int]
    awaits_slots: bool | None = None  # None: the answer does not tell


@dataclass
class _Gate:
    full_at: int = 0
    shut_until: int = 0
    shut_for: int = 0

    def probes(self, now: int) -> bool:
        return self.shut_until <= now < self.shut_until + self.shut_for


@dataclass
class _Starts:
    """What started under one rate, since it was last changed."""

    at: list[int] = field(default_factory=list)
    cost: list[int] = field(default_factory=list)


class ModelLanes:
    """The verbs of `KeepsLimits`, and what a claim asks."""

    live: dict[str, ModelJob]

    def __init__(self) -> None:
        super().__init__()
        self.limit_rows: dict[tuple[Kind, str], LimitRow] = {}
        self.gates: dict[Scope, _Gate] = defaultdict(_Gate)
        self.starts: dict[Place, _Starts] = defaultdict(_Starts)
        self.most: dict[Place, int] = {}  # how many ran when it was last looked at

    @property
    @abstractmethod
    def now(self) -> int: ...

    # What people and deployments do.

    def declare(self, rows: Sequence[LimitRow]) -> None:
        for row in rows:
            there = self.limit_rows.get((row.kind, row.name))
            if there is None or there.declared_at <= row.declared_at:
                self._write(replace(row, chosen=Bounds() if there is None else there.chosen))

    def set_limit(self, kind: Kind, name: str, chosen: Bounds | None, *, new: bool = False) -> bool:
        there = self.limit_rows.get((kind, name))
        if there is None and (chosen is None or not new):
            return False
        if there is None or chosen is None:
            there = LimitRow(kind=kind, name=name)
        self._write(replace(there, chosen=chosen or Bounds()))
        if chosen is None or (kind == "queue" and self.bounds(kind, name) == Bounds()):
            del self.limit_rows[kind, name]
        return True

    def _write(self, row: LimitRow) -> None:
        before = self.bounds(row.kind, row.name)
        self.limit_rows[row.kind, row.name] = row
        if before.rate != self.bounds(row.kind, row.name).rate:
            for place in self.starts:
                if place[:2] == (row.kind, row.name):
                    self.gates[place[2]].full_at = 0
            self.starts = defaultdict(
                _Starts, {place: each for place, each in self.starts.items() if place[:2] != (row.kind, row.name)}
            )

    def shut(self, lane: str, *, opened: bool = False) -> bool | None:
        """Shut or open; return whether that changed it.  None: time has opened a gate, and a store may have dropped it."""
        gates = [self.gates["lane", lane]]
        if opened and lane.endswith("/") and lane.count("/") == 1:
            gates += [gate for (_, name), gate in self.gates.items() if name.startswith(lane)]
        before = [(gate.shut_until, gate.shut_for) for gate in gates]
        for gate in gates:
            gate.shut_until, gate.shut_for = 0 if opened else LAST_INSTANT, 0
        if (
            opened
            and any(until or length for until, length in before)
            and all(until <= self.now for until, _ in before)
        ):
            return None
        return any(each != (0 if opened else LAST_INSTANT, 0) for each in before)

    def change_gate(self, change: GateChange) -> None:
        """Shut or open a lane by a settlement."""
        gate = self.gates["lane", change.lane]
        if gate.shut_until == LAST_INSTANT:
            return
        if change.seconds == 0:
            gate.shut_until = gate.shut_for = 0
            return
        length = round(change.seconds * SECOND)
        still = gate.shut_for if gate.shut_until > self.now else 0
        gate.shut_for = max(still, length) if change.probes else still
        gate.shut_until = max(gate.shut_until, self.now + length)

    # What is seen.

    def limits(self) -> list[LimitState]:
        return [self._state(row) for _, row in sorted(self.limit_rows.items())]

    def _state(self, row: LimitRow) -> LimitState:
        if row.kind == "key":
            return LimitState(row=row)
        scope = ("queue", row.name) if row.kind == "queue" else ("lane", f"{row.name}/")
        place: Place = (row.kind, row.name, scope)
        gate, rate = self.gates[scope], self.bounds(row.kind, row.name).rate
        tokens = None if rate is None else self._tokens(place)
        return LimitState(
            row=row,
            running=len(self.running(scope)),
            tokens=tokens,
            opens_at=self._token_at(place, 1) if tokens is not None and tokens < 1 else None,
            shut_until=gate.shut_until if gate.shut_until > self.now else None,
        )

    def bounds(self, kind: Kind, name: str) -> Bounds:
        """Each bound as it was chosen, else as it was declared."""
        row = self.limit_rows.get((kind, name))
        if row is None:
            return Bounds()
        running = row.declared.running if row.chosen.running is None else row.chosen.running
        return Bounds(running=running, rate=row.chosen.rate or row.declared.rate)

    def running(self, scope: Scope, since: int = 0) -> list[ModelJob]:
        """The leases that a scope has."""
        leased = (job for job in self.live.values() if job.state is State.EXECUTING)
        started = (job for job in leased if (job.started_at or 0) >= since)
        return [job for job in started if scope in [each for _, each in job.kinds_and_scopes]]

    def instants(self) -> list[int]:
        """When a gate opens, when its probing ends, and when there is a token."""
        found = [gate.shut_until for gate in self.gates.values() if gate.shut_until < LAST_INSTANT]
        found += [gate.shut_until + gate.shut_for for gate in self.gates.values() if gate.shut_until < LAST_INSTANT]
        rated = [place for place in self.starts if self.bounds(*place[:2]).rate is not None]
        return found + [self._token_at(place, 1) for place in rated]

    # Who may start.

    def places(self, job: ModelJob) -> list[Place]:
        """The limits that a start of this job needs: its queue's, its job's, its lane's."""
        return [(kind, scope[1] if kind == "queue" else job.group[:-1], scope) for kind, scope in job.kinds_and_scopes]

    def is_full(self, place: Place) -> bool:
        """Whether it waits for a lease to end, or to be opened by hand."""
        kind, name, scope = place
        gate, most = self.gates[scope], self.bounds(kind, name).running
        if gate.shut_until == LAST_INSTANT or (most is not None and len(self.running(scope)) >= most):
            return True
        return gate.probes(self.now) and len(self.running(scope, gate.shut_until)) > 0

    def is_open(self, place: Place) -> bool:
        if self.is_full(place) or self.gates[place[2]].shut_until > self.now:
            return False
        return self.bounds(*place[:2]).rate is None or self._tokens(place) > 0

    def is_limited(self, job: ModelJob) -> bool:
        """Whether its start takes what others could use: such jobs are not claimed before they can begin."""
        own = [place for place in self.places(job) if place[0] != "key"]
        probed = any(self.gates[scope].probes(self.now) for _, _, scope in own)
        kinds: list[tuple[Kind, str]] = [(kind, name) for kind, name, _ in own]
        if job.envelope.lane is not None:
            kinds.append(("key", job.group[:-1]))
        return probed or any(self.bounds(*each) != Bounds() for each in kinds)

    def probe_of(self, job: ModelJob) -> float:
        """Seconds for which its job was shut, if its start shows whether the job may open."""
        gates = [self.gates[scope] for kind, _, scope in self.places(job) if kind == "job"]
        return sum(gate.shut_for / SECOND for gate in gates if gate.probes(self.now))

    def charge(self, job: ModelJob) -> None:
        """Take the tokens of a start, and compare all windows that end with it: one token is enough to begin."""
        for place in self.places(job):
            rate, gate, starts = self.bounds(*place[:2]).rate, self.gates[place[2]], self.starts[place]
            if rate is None:
                continue
            used = 0
            for at, cost in zip(reversed(starts.at), reversed(starts.cost), strict=True):
                used += cost
                assert (used + 1 - rate.burst) * rate.interval <= self.now - at, f"{place} starts more than {rate}"
            cost = job.envelope.cost or 1
            gate.full_at = max(self.now, gate.full_at) + cost * rate.interval
            starts.at.append(self.now)
            starts.cost.append(cost)

    def _tokens(self, place: Place) -> int:
        rate = self.bounds(*place[:2]).rate
        assert rate is not None
        missing = max(0, self.gates[place[2]].full_at - self.now)
        return rate.burst - -(-missing // rate.interval)

    def _token_at(self, place: Place, number: int) -> int:
        """When there are so many tokens, and it is not shut."""
        rate, gate = self.bounds(*place[:2]).rate, self.gates[place[2]]
        if rate is None:
            return self.now
        return max(self.now, gate.full_at - (rate.burst - number) * rate.interval)

    def due_when_booked(self, line: Sequence[ModelJob]) -> dict[str, int]:
        """When the jobs of a lane that its own rate or gate has closed are due if they are booked: each at its token."""
        own = [place for place in self.places(line[0]) if place[0] == "key"]
        if not own or self.is_open(own[0]) or self.is_full(own[0]):
            return {}
        due: dict[str, int] = {}
        tokens = 1
        for job in line:
            at = max(self._token_at(own[0], tokens), self.gates[own[0][2]].shut_until)
            if at > self.now + HORIZON:
                break
            due[job.id] = at
            tokens += job.envelope.cost or 1
        return due

    def check_limits(self) -> None:
        """No more leases than a limit allows; where it was lowered, no more than there were."""
        for job in self.live.values():
            for place in self.places(job) if job.state is State.EXECUTING else ():
                running, most = len(self.running(place[2])), self.bounds(*place[:2]).running
                allowed = running if most is None else max(most, self.most.get(place, 0))
                assert running <= allowed, f"{running} leases of {place}, and the limit is {most}"
                self.most[place] = running
        gone = [place for place in self.most if not self.running(place[2])]
        for place in gone:
            del self.most[place]
