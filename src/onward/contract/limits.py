"""The part of the contract for lanes: which jobs of a queue may start now, and in which order.

A job may carry a lane (`onward.flow.lanes`); a job without one is plain, and claimed as ever.  A claim walks the lanes of a
queue (`onward.flow.walk`) and takes no more of them than their limits leave room for.

- **Running.**  A slot of a limit is an executing row.  Rooms are counted from these rows, under a lock that no other
  claim of the same limit can pass: a lease that ends, by whatever path, has given its slot back.  A job's and a lane's
  limit count over all queues, a queue's counts every lease of that queue.
- **Rates.**  A start takes the tokens it costs from the buckets of its queue, job and lane, in the transaction of its
  claim. Tokens are never given back.
- **Begins.**  Where a limit or a rate bounds a lane, a claim takes no more than can begin at once (`Claim.begins`).
- **Order.**  Priority first; within a priority turns between jobs, all plain jobs being one and all lanes without a job's
  name another; within a job turns between its lanes; within a lane due time and id.
- **Bounds.**  A claim looks at no more than `limit + 64` lanes, and books no more than 200 jobs.  If that ended its walk
  it answers `more`, and the next claim of this process goes on there; after a circle that found nothing it does not.
- **Booked.**  The jobs of a lane with a key that has no tokens, or is shut, are scheduled for their tokens, none more
  than 15 minutes ahead, so that walks do not meet them.  They are made due apart from other jobs.
- **A changed rate** begins with a full bucket: those of its scope, or of every key, are filled by the write that changes it.
- **Shut.**  A settlement may carry `gate`: it shuts or opens a lane, or all lanes of a job, in its own transaction, if it
  is applied.  Shutting only lengthens.  A gate that `probes` is followed by as long a time again in which one lease at a
  time is handed out (`Lease.probe`), unless it is opened.

`limits` returns every limit; `set_limit` changes what people chose, and counts at the next claim everywhere; sessions
declare what the code says (`Session.limits`), which changes nothing that was chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from onward.contract.audit import Audit
from onward.flow.lanes import group_of
from onward.flow.limits import Bounds, Kind, merged
from onward.flow.room import Gate, Scope
from onward.flow.tokens import next_token, tokens_left

__all__ = ["KeepsLimits", "Kind", "LimitRow", "LimitState", "limits_over", "state_of", "states_over"]


class LimitRow(msgspec.Struct, frozen=True, kw_only=True):
    """A limit as the store keeps it: of a queue, of a job, or of each key of a job."""

    kind: Kind
    name: str  # of the queue, or of the job
    declared: Bounds = Bounds()  # by the code; a job that has lanes of its own is declared even without bounds
    declared_at: int = 0  # when the process that declared it started: the last deployment wins
    chosen: Bounds = Bounds()  # by people, while the program runs
    only_ends: bool = False  # of a declaration: it takes back what an earlier deployment declared, and makes no limit

    @property
    def bounds(self) -> Bounds:
        """What counts."""
        return merged(self.declared, self.chosen)


class LimitState(msgspec.Struct, frozen=True, kw_only=True):
    """A limit, and how much of it is used now."""

    row: LimitRow
    lane: str | None = None  # of a limit by keys: the lane that the numbers are of
    running: int | None = None  # leases; None for the keys of a job together, which have a number each
    tokens: int | None = None  # that are left of its rate; negative in debt
    opens_at: int | None = None  # when it has a token again, if it has none
    shut_until: int | None = None
    probing: bool | None = None  # a breaker lets one run at a time find out whether it may open: whether one runs


class UsageView(Protocol):
    """What is asked of a store to show a limit: a part of what a walk asks."""

    now: int

    def gate(self, scope: Scope) -> Gate: ...

    def running(self, scope: Scope, since: int = 0) -> int: ...


def state_of(row: LimitRow, view: UsageView, lane: str | None = None) -> LimitState:
    """Return a limit with what is used of it now, as a walk would find it; a limit by keys needs a lane for that."""
    if row.kind == "key" and lane is None:
        return LimitState(row=row)
    scope = _scope_of(row, lane)
    gate, rate = view.gate(scope), row.bounds.rate
    tokens = None if rate is None else tokens_left(rate, gate.bucket, view.now)
    return LimitState(
        row=row,
        lane=lane if row.kind == "key" else None,
        running=view.running(scope),
        tokens=tokens,
        opens_at=None if rate is None or tokens is None or tokens > 0 else next_token(rate, gate.bucket, view.now),
        shut_until=gate.shut_until if gate.is_shut(view.now) else None,
    )


def states_over(
    queue: str, lane: str | None, limits: Mapping[tuple[Kind, str], LimitRow], view: UsageView
) -> tuple[LimitState, ...]:
    """Return the limits over a job that bound anything or were shut, with what is used of each."""
    over = [limits.get(key) or LimitRow(kind=key[0], name=key[1]) for key in limits_over(queue, lane)]
    states = [_probed(state_of(row, view, lane), view) for row in over if row.kind != "queue" or row.bounds]
    return tuple(each for each in states if each.row.bounds or each.shut_until is not None or each.probing is not None)


def limits_over(queue: str, lane: str | None) -> list[tuple[Kind, str]]:
    """Return the limits that may bound a job of this queue and lane, by kind and name.

    >>> limits_over("mail", "render/822bacme"), limits_over("mail", None)
    ([('queue', 'mail'), ('job', 'render'), ('key', 'render')], [('queue', 'mail')])
    """
    found: list[tuple[Kind, str]] = [("queue", queue)]
    if lane is not None:
        group = group_of(lane)
        found += [("job", group[:-1])] if group != "/" else []
        found += [("key", group[:-1])] if lane != group else []
    return found


def _probed(state: LimitState, view: UsageView) -> LimitState:
    scope = _scope_of(state.row, state.lane)
    gate = view.gate(scope)
    if not gate.probes(view.now):
        return state
    return msgspec.structs.replace(state, probing=view.running(scope, gate.shut_until) > 0)


def _scope_of(row: LimitRow, lane: str | None) -> Scope:
    if row.kind == "queue":
        return Scope.of_queue(row.name)
    return Scope.of_lane(lane if row.kind == "key" and lane is not None else f"{row.name}/")


@runtime_checkable
class KeepsLimits(Protocol):
    """A store that keeps limits."""

    def limits(self, *, at_most: int | None = None) -> Sequence[LimitState]:
        """Return every limit, by kind and name; or the first so many: what is used of each is looked up."""
        ...

    def set_limit(self, kind: Kind, name: str, chosen: Bounds | None, *, new: bool = False, audit: Audit = ()) -> bool:
        """Choose bounds, which beat the declared ones until they are set to none.  False: there is no such limit.

        ``new``: it is made if there is none.  A queue's limit without bounds is dropped.  None for ``chosen`` drops a limit
        with what was declared of it; a session that declares it makes it again.
        """
        ...

    def shut(self, lane: str, *, opened: bool = False, audit: Audit = ()) -> bool:
        """Shut a lane, or with ``render/`` all lanes of a job, until it is opened.  True if that changed anything.

        Or open it: a job with each of its lanes, whatever has shut them.
        """
        ...
