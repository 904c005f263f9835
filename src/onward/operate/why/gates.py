"""Rules for limits: what was shut, whose slots are taken, and whose tokens are used up."""

from __future__ import annotations

from onward.backend import LimitState
from onward.base.wording import counted
from onward.flow.lanes import shown
from onward.flow.room import FOREVER, HORIZON
from onward.job.states import State
from onward.operate.commands import command
from onward.operate.why.case import Case
from onward.operate.why.reason import Reason, at, moment

__all__ = ["booked_by", "gates", "limited", "shut", "throttled"]


def gates(case: Case) -> Reason | None:
    """Return the limit that holds a job, None if all leave room for it."""
    return shut(case) or limited(case) or throttled(case)


def shut(case: Case) -> Reason | None:
    closed = [limit for limit in _over(case) if limit.shut_until is not None or limit.probing]
    if not closed:
        return None
    limit = max(closed, key=lambda each: each.shut_until or 0)
    fix = command("limit", "open", limit.row.name) if limit.row.name else "wait: a Throttle has shut its key"
    facts = {
        "kind": limit.row.kind,
        "name": limit.row.name,
        "limit": _named(limit),
        "shut_until": limit.shut_until,
    }
    if limit.shut_until is None:
        return Reason(
            code="shut",
            text=f"The breaker of {_named(limit)} lets one run at a time find out whether it may open, and one runs.",
            fix=fix,
            facts=facts,
        )
    if limit.shut_until >= FOREVER:
        return Reason(code="shut", text=f"A person has shut {_named(limit)}, until it is opened.", fix=fix, facts=facts)
    opens = max(limit.shut_until, case.job.available_at) if booked_by(case) else limit.shut_until
    return Reason(
        code="shut", text=f"{_named(limit)} is shut until {moment(opens)}.", fix=fix, until=at(opens), facts=facts
    )


def limited(case: Case) -> Reason | None:
    limit = next((each for each in _over(case) if _is_full(each)), None)
    if limit is None:
        return None
    bound, ids = limit.row.bounds.running, [job.id for job in case.besides.running]
    raise_it = _setting(limit, "--running", "N")
    return Reason(
        code="limited",
        text=f"The limit of {_named(limit)} is reached: {limit.running} of {counted(bound or 0, 'run is', 'runs are')} taken"
        f"{' by ' + ', '.join(ids) if ids else ''}.",
        fix=f"onward why {ids[0]}; or raise the limit: {raise_it}" if ids else raise_it,
        facts={"kind": limit.row.kind, "limit": _named(limit), "running": limit.running, "of": bound, "ids": ids},
    )


def throttled(case: Case) -> Reason | None:
    empty = [limit for limit in _over(case) if limit.opens_at is not None and limit.opens_at > case.now]
    if not empty:
        return None
    limit = max(empty, key=lambda each: each.opens_at or 0)
    opens = limit.opens_at or 0
    return Reason(
        code="throttled",
        text=f"The rate of {_named(limit)} has no token left; the next one comes at {moment(opens)}.",
        fix=_setting(limit, "--rate RATE"),
        until=at(max(opens, case.job.available_at) if booked_by(case) else opens),
        exact=case.place.ahead == 0,
        facts={"kind": limit.row.kind, "limit": _named(limit), "tokens": limit.tokens, "opens_at": opens},
    )


def booked_by(case: Case) -> LimitState | None:
    """Return the limit by keys for whose token a job was scheduled, None if it was not.

    A claim schedules the jobs of a key that has no tokens or is shut, so that it does not meet them again; none further
    ahead than the horizon.
    """
    job = case.job
    if job.state is not State.SCHEDULED or job.waits or job.parked_since is not None:
        return None
    if not case.now < job.available_at <= case.now + HORIZON:
        return None
    by_key = [limit for limit in case.place.limits if limit.row.kind == "key"]
    closed = [
        limit for limit in by_key if limit.shut_until is not None or (limit.tokens is not None and limit.tokens <= 0)
    ]
    return closed[0] if closed else None


def _over(case: Case) -> tuple[LimitState, ...]:
    return case.place.limits if case.waits else ()


def _is_full(limit: LimitState) -> bool:
    bound = limit.row.bounds.running
    return bound is not None and limit.running is not None and limit.running >= bound


def _named(limit: LimitState) -> str:
    if limit.row.kind == "key":
        return f"key {shown(limit.lane)!r}"
    return f"{limit.row.kind} {limit.row.name!r}"


def _setting(limit: LimitState, *bound: str) -> str:
    """Return the command that changes a limit."""
    name = limit.row.name
    whose = {"queue": ("--queue", name), "job": (name,), "key": (name, "--each-key")}[limit.row.kind]
    return command("limit", "set", *whose, *bound)
