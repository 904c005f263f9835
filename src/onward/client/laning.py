"""The lane of a call: from the limits of its job, the application's ``fair_by``, and what the call itself says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from onward.base.names import queue_name, suggestion
from onward.contract.limits import LimitRow
from onward.errors import ArgumentError, DefinitionError, InvalidLimit, OptionError
from onward.flow.breaker import breaker_of
from onward.flow.lanes import lane_key, lane_of
from onward.flow.limits import LARGEST_COST, Bounds, Limit, limits_of
from onward.job.arguments import Arguments

__all__ = ["LaneRule", "Lanes"]

Digest = Callable[[str, str, str | None], str | None]  # kind, owner, key: as it travels

_META = "meta."


class LaneRule:
    """How calls of one job find their lane."""

    def __init__(
        self, job: str, arguments: Arguments, limits: tuple[Limit, ...], fair_by: str | None, *, breaks: bool = False
    ) -> None:
        """``breaks``: whether the job has a breaker, and so lanes of its own."""
        self.job = job
        self.limits = limits
        self._breaks = breaks
        self._arguments = arguments
        by = next((limit.by for limit in limits if limit.by is not None), None)
        self._by = self._place("by", by) if by else fair_by if fair_by in arguments.names else None
        self._cost = self._place("cost", next((limit.cost for limit in limits if limit.cost is not None), None))
        if self._by in arguments.secrets:
            raise DefinitionError(f"job {job!r}: its lanes go by {self._by!r}, which is secret, and lanes are shown")

    def __bool__(self) -> bool:
        return self.has_own_lanes or self._by is not None

    @property
    def has_own_lanes(self) -> bool:
        return bool(self.limits) or self._breaks

    @property
    def differs(self) -> bool:
        """Whether calls differ in their lane or cost."""
        return self._by is not None or self._cost is not None

    @property
    def own(self) -> str:
        """The name before the slash: of a job with limits or a breaker of its own."""
        return self.job if self.has_own_lanes else ""

    def key_and_cost(self, payload: bytes, meta: Mapping[str, Any]) -> tuple[str | None, int | None]:
        """Return what the arguments of a call say."""
        if not self.differs:
            return None, None
        values = msgspec.to_builtins(self._arguments.by_name(payload))
        key = None if self._by is None else lane_key(_at(self._by, values, meta), self.job, self._by)
        return key, None if self._cost is None else self._checked_cost(_at(self._cost, values, meta))

    def rows(self, declared_at: int) -> list[LimitRow]:
        """Return what a session declares of this job."""
        bounds = {limit.by is None: limit.bounds for limit in self.limits}
        rows = [LimitRow(kind="job", name=self.job, declared=bounds.get(True, Bounds()), declared_at=declared_at)]
        # Without bounds too: those that an earlier deployment declared are gone, also for keys that calls say themselves.
        declared, only_ends = bounds.get(False, Bounds()), self._by is None
        rows.append(
            LimitRow(kind="key", name=self.job, declared=declared, declared_at=declared_at, only_ends=only_ends)
        )
        return rows

    def _place(self, what: str, place: str | None) -> str | None:
        if place is None or place.startswith(_META) or place in self._arguments.names:
            return place
        hint = suggestion(place, self._arguments.names) if self._arguments.names else ", which takes none"
        raise DefinitionError(f"job {self.job!r}: {what}={place!r} names no parameter of it{hint}")

    def _checked_cost(self, value: Any) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= LARGEST_COST:
            raise ArgumentError(
                f"{self.job}: its cost, {self._cost}, must be a whole number from 1 to {LARGEST_COST:,}, not {value!r:.60}"
            )
        return None if value == 1 else value


def _at(place: str, values: Mapping[str, Any], meta: Mapping[str, Any]) -> Any:
    return meta.get(place.removeprefix(_META)) if place.startswith(_META) else values.get(place)


class Lanes:
    """The lanes of one application: a rule for each job that has any."""

    def __init__(self, fair_by: str | None = None, queue_limits: Mapping[str, Limit] | None = None) -> None:
        if fair_by is not None and (not isinstance(fair_by, str) or not fair_by.isidentifier()):
            raise OptionError(f"fair_by names a parameter that jobs have, such as 'tenant', not {fair_by!r:.60}")
        self.fair_by = fair_by
        self.declared_at = 0  # when the application was made, or deployed
        self.digest: Digest = _as_it_is  # of keys, where payloads are encrypted
        self._rules: dict[str, LaneRule] = {}
        self._queues = _of_queues({} if queue_limits is None else queue_limits)

    @property
    def limits_queues(self) -> bool:
        return bool(self._queues)

    def add(self, job: str, arguments: Arguments, limit: Any, breaker: Any = None) -> LaneRule:
        """Make the rule of a job."""
        limits = () if limit is None else limits_of(limit, job)
        breaks = breaker is not None and bool(breaker_of(breaker, job))
        rule = LaneRule(job, arguments, limits, self.fair_by, breaks=breaks)
        if rule:
            self._rules[job] = rule
        else:
            self._rules.pop(job, None)
        return rule

    def rule(self, job: str) -> LaneRule | None:
        return self._rules.get(job)

    def of_call(
        self, job: str, payload: bytes, meta: Mapping[str, Any], said: str | None
    ) -> tuple[str | None, int | None]:
        """Return the lane and the cost of a call.  ``said``: the key that it names itself."""
        rule = self._rules.get(job)
        if rule is None:
            return (None, None) if said is None else (lane_of("", self.digest("lane", "", said)), None)
        key, cost = rule.key_and_cost(payload, meta)
        return lane_of(rule.own, self.digest("lane", rule.own, key if said is None else said)), cost

    def declared(self) -> tuple[LimitRow, ...]:
        """Return the limits that the code declares."""
        jobs = [row for rule in self._rules.values() if rule.has_own_lanes for row in rule.rows(self.declared_at)]
        queues = [
            LimitRow(kind="queue", name=queue, declared=bounds, declared_at=self.declared_at)
            for queue, bounds in self._queues.items()
        ]
        return (*jobs, *queues)


def _as_it_is(_kind: str, _owner: str, key: str | None) -> str | None:
    return key


def _of_queues(given: Any) -> dict[str, Bounds]:
    if not isinstance(given, Mapping):
        raise InvalidLimit(f"queue_limits takes limits by queue, {{'mail': Limit(running=5)}}, not {given!r:.60}")
    return {queue_name(queue): _of_queue(queue, limit) for queue, limit in given.items()}


def _of_queue(queue: str, limit: Any) -> Bounds:
    if not isinstance(limit, Limit):
        raise InvalidLimit(
            f"the limit of queue {queue!r} must be a Limit(running=…) or Limit(rate=…), not {limit!r:.60}"
        )
    if limit.by is not None or limit.cost is not None:
        raise InvalidLimit(
            f"the limit of queue {queue!r} cannot have by or cost: give that to the jobs, limit=Limit(by=…)"
        )
    return limit.bounds
