"""What the machine does with lanes and limits, where the backend has any.

Some stories have lanes: their jobs go by turns through a list of lanes that is drawn with the story, and so are the limits
that sessions declare.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from onward.backend import Claim, Kind, Lease, LimitRow, Query
from onward.flow.lanes import group_of, lane_of
from onward.flow.limits import Bounds, rate_of
from onward.job.settlement import GateChange, Settlement
from onward.job.states import State
from onward.testing.clock import FakeClock
from onward.testing.machine.asking import AskedModel
from onward.testing.machine.comparing import agree
from onward.testing.machine.drawing import QUEUES, Options, owners, plans
from onward.testing.machine.model_lanes import Followed

__all__ = ["LaneRules", "laned_themes"]

JOB = "render"
LANES = (None, lane_of(JOB, None), *(lane_of(job, key) for job in (JOB, "") for key in "ab"))
LIMITS: tuple[tuple[Kind, str], ...] = (("job", JOB), ("key", JOB), ("queue", QUEUES[0]), ("queue", QUEUES[1]))
SCHEDULED = Query(states=frozenset({State.SCHEDULED}), limit=1_000_000)

# A token every second, or every five: an advance often ends one to the microsecond.
_rates = st.sampled_from((rate_of("60/min", 1), rate_of("60/min", 3), rate_of("12/min", 1), rate_of("12/min", 2)))
_bounds = st.one_of(
    st.builds(Bounds, running=st.integers(1, 3)),
    st.builds(Bounds, rate=_rates),
    st.builds(Bounds, running=st.integers(1, 2), rate=_rates),
)
# Seconds for which a settlement shuts its lane, or with True its job, which one run at a time then probes; 0 opens its job.
_gates = st.sampled_from((None, None, None, (5.0, False), (30.0, False), (5.0, True), (30.0, True), (0.0, False)))
_places = st.sampled_from((*LIMITS, *LIMITS[:2]))


def _rows(found: dict[tuple[Kind, str], Bounds]) -> tuple[LimitRow, ...]:
    return tuple(LimitRow(kind=kind, name=name, declared=bounds) for (kind, name), bounds in sorted(found.items()))


laned_themes: st.SearchStrategy[Options] = st.fixed_dictionaries({
    "lanes": st.lists(st.sampled_from(LANES), min_size=1, max_size=5),
    "costs": st.sampled_from(((1,), (1,), (1, 3))),
    "gates": st.lists(_gates, min_size=1, max_size=4),
    "limits": st.dictionaries(_places, _bounds, min_size=1, max_size=3).map(_rows),
})  # fmt: skip


_claims = st.builds(
    Claim,
    queues=st.sampled_from((QUEUES[:1], QUEUES[:1], QUEUES, QUEUES[::-1])),
    limit=st.sampled_from((4, 2, 3, 8)),
    begins=st.sampled_from((None, None, None, 1, 2, 0)),
)


class LaneRules(RuleBasedStateMachine):
    """The commands of `KeepsLimits`, for `ContractMachine`."""

    backend: Any
    model: AskedModel
    theme: Options
    clock: FakeClock
    leases: list[Lease]

    @abstractmethod
    def _both(self, verb: str, *args: Any, **options: Any) -> Any: ...

    @abstractmethod
    def enqueue(self, batch: list[Options], retried: bool) -> None: ...

    @abstractmethod
    def claim(self, owner: str, claim: Claim) -> None: ...

    @abstractmethod
    def _count(self, command: str, *outcomes: str) -> None: ...

    @property
    def is_laned(self) -> bool:
        """Whether this story has lanes."""
        return "lanes" in self.theme and bool(self.backend.capabilities.lanes)

    def _limits(self) -> tuple[LimitRow, ...]:
        """What the code of every session declares."""
        rows: tuple[LimitRow, ...] = self.theme["limits"] if self.is_laned else ()
        return rows

    def _in_lane(self, plan: Options, number: int) -> Options:
        """Return the plan of a job with its lane and what it costs."""
        if not self.is_laned:
            return plan
        lanes, costs = self.theme["lanes"], self.theme["costs"]
        lane, cost = lanes[number % len(lanes)], costs[number % len(costs)]
        return plan if lane is None else {**plan, "lane": lane, "cost": None if cost == 1 else cost}

    def _with_gate(self, settlement: Settlement) -> Settlement:
        """Let some settlements shut or open their job; or only their lane, if no probe follows."""
        lane = settlement.lease.lane
        if lane is None or not self.is_laned:
            return settlement
        gates = self.theme["gates"]
        seconds, probes = gates[len(self.leases) % len(gates)] or (None, False)
        if seconds is None:
            return settlement
        scope = group_of(lane) if probes or seconds == 0 else lane
        return settlement if scope == "/" else replace(settlement, gate=GateChange(scope, seconds, probes))

    def _follow(self, claimed: Sequence[Lease], awaits_slots: bool | None) -> None:
        """Tell the model what the backend did: whose turn it was is the backend's to choose."""
        if self.is_laned:
            scheduled = {job.id: job.available_at for job in self.backend.list(SCHEDULED)}
            self.model.followed = Followed([lease.envelope.id for lease in claimed], scheduled, awaits_slots)

    @precondition(lambda self: self.is_laned)
    @rule(
        owner=owners, claim=_claims, more=st.lists(plans, min_size=1, max_size=4), seconds=st.sampled_from((0, 0, 1, 5))
    )
    def enqueue_and_claim(self, owner: str, claim: Claim, more: list[Options], seconds: float) -> None:
        """What a story with lanes is about, and so often: jobs come, some are claimed, time passes, some more are."""
        self.enqueue([{**plan, "queue": claim.queues[0]} for plan in more], retried=False)
        self.claim(owner, claim)
        self.clock.advance(seconds)
        self.claim(owner, claim)

    @precondition(lambda self: self.is_laned)
    @rule(place=_places, bounds=_bounds | st.just(Bounds()) | st.none(), new=st.booleans())
    def set_limit(self, place: tuple[Kind, str], bounds: Bounds | None, new: bool) -> None:
        there = self._both("set_limit", *place, bounds, new=new)
        self._count("set_limit" if there else "set_limit of no limit")

    @precondition(lambda self: self.is_laned)
    @rule(lane=st.sampled_from([lane for lane in LANES if lane]), opened=st.sampled_from((False, True, True)))
    def shut(self, lane: str, opened: bool) -> None:
        changed, was_shut = self.backend.shut(lane, opened=opened), self.model.shut(lane, opened=opened)
        if was_shut is not None:
            agree("the answer to shut", changed, was_shut)
        self._count("open" if opened else "shut")

    @invariant()
    def all_limits_are_the_same_and_kept(self) -> None:
        if self.is_laned:
            self.model.check_limits()
            agree("limits()", list(self.backend.limits()), self.model.limits())
