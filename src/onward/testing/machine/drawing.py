"""The strategies of the machine: jobs, settlements, claims.  Few names and few times, so that they coincide often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from hypothesis import strategies as st

from onward.backend import Capabilities, Claim, Query
from onward.base.clock import SECOND
from onward.base.failure import Failure
from onward.base.ids import derived_id
from onward.job.envelope import Envelope, Letter, seal
from onward.job.lease import Lease
from onward.job.settlement import Settlement
from onward.job.states import State

__all__ = [
    "OWNERS",
    "QUEUES",
    "Options",
    "an_envelope",
    "claims",
    "idempotency_keys",
    "member_plans",
    "narrowed",
    "numbers",
    "owners",
    "plans",
    "queries",
    "settlement",
    "settlings",
    "several",
    "signal_names",
    "spans",
    "themes",
]

QUEUES = ("mail", "slow")
OWNERS = ("ann", "bob", "cy")
# Delays, times to live, and what a lease lasts: an advance often ends one to the microsecond.
SECONDS = (0.0, 1.0, 5.0, 30.0, 60.0)

Options = Mapping[str, Any]  # only what is not plain: that is what a failing example shows

_yes, _no = st.sampled_from((True,)), st.sampled_from((False,))

spans = st.sampled_from(SECONDS)
owners = st.sampled_from((*OWNERS, OWNERS[0]))
numbers = st.sampled_from((0, 0, 1, 0, 1, 2, 0, 1, 3, 7))  # which of several: the first are most worth picking
several = st.lists(numbers, min_size=1, max_size=3)


idempotency_keys = st.sampled_from(("k", "k", "l"))
signal_names = st.sampled_from(("go", "go", "stop"))


def _some_of(most: int, *often: str, **options: st.SearchStrategy[Any]) -> st.SearchStrategy[Options]:
    """Draw at most ``most`` of these options: jobs with few options coincide more often."""
    drawn = [st.tuples(st.just(name), options[name]) for name in (*options, *often)]
    return st.lists(st.one_of(drawn), max_size=most).map(dict)


plans = _some_of(
    4,
    *("idempotency_key", "single_instance") * 3,
    "unique_key",
    queue=st.just(QUEUES[1]),
    again=numbers,  # an id that was used before
    leading=st.integers(1, 3),  # ids do not rise with time here: order must not lean on it
    job=st.just("play"),
    priority=st.sampled_from((5, -5)),
    delay=spans,
    not_before=st.sampled_from((-5.0, 5.0, 60.0)),  # seconds from now
    expires=spans,
    unique_key=st.sampled_from(("u", "v")),
    replaces=st.sampled_from(("u", "v")),  # a unique key whose holder has to go
    idempotency_key=idempotency_keys,
    single_instance=_yes,
    max_crashes=st.integers(1, 3),
)

# Those of members of flows, which have no unique keys.
member_plans = _some_of(
    2,
    queue=st.just(QUEUES[1]),
    leading=st.integers(1, 3),
    priority=st.sampled_from((5, -5)),
    delay=spans,
    not_before=st.sampled_from((-5.0, 5.0)),
    expires=spans,
    idempotency_key=idempotency_keys,
    single_instance=_yes,
    max_crashes=st.integers(1, 2),
)


# The options that all jobs of one example share, unless they have their own: so that rare options coincide.
themes = st.sampled_from(
    (
        {},
        {},
        {},
        {},
        {"idempotency_key": "k"},
        {"single_instance": True},
        {"idempotency_key": "k", "single_instance": True},
        {"unique_key": "u"},
        {"replaces": "u"},
        {"expires": 30.0},
    )
)


def an_envelope(job_id: str, plan: Options, now: int, can: Capabilities) -> Envelope:
    """Make the job of a plan, as far as this backend can carry it."""
    keys = ("unique_key", "idempotency_key", "single_instance") if can.deduplicates else ()
    asked = {key: plan[key] for key in ("queue", "job", "max_crashes", "flow", "node", *keys) if key in plan}
    if can.deduplicates and "replaces" in plan:
        asked |= {"unique_key": plan["replaces"], "unique_strategy": "cancel_existing"}
    if can.priorities:
        asked["priority"] = plan.get("priority", 0)
    if can.delays and "not_before" in plan:
        asked["not_before"] = now + round(plan["not_before"] * SECOND)
    if "lane" in plan:
        asked |= {"lane": plan["lane"], "cost": plan["cost"]}
    if "expires" in plan:
        asked["expires_at"] = now + round(plan["expires"] * SECOND)
    plain: dict[str, Any] = {
        "namespace": "default",
        "queue": QUEUES[0],
        "job": "work",
        "max_crashes": 4,
        "enqueued_at": now,
        "payload": msgspec.Raw(b'{"n": 1}'),
        "key_scope": "global",
        "idempotency_ttl": 600.0,
    }
    delay = round(plan.get("delay", 0) * SECOND) if can.delays else 0
    return seal(Letter(id=job_id, **(plain | asked)), delay=delay)


def _settling(move: str, **options: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, Options]]:
    return st.tuples(st.just(move), _some_of(3, **options) if options else st.just({}))


_FINGERPRINT = "0a1b2c3d4e5f"
_failure = st.sampled_from(
    (Failure("ValueError", "it broke", "Traceback\n"), Failure("KeyError", "it is gone", "", _FINGERPRINT))
)
_ran = st.booleans()

# A move and its options, for a lease that is not chosen yet.
settlings = st.one_of(
    _settling("ack"),
    _settling("ack", keep=_no, result=st.just(b'"done"'), reason=st.just("no result: too large")),
    _settling("skip"),
    _settling("nack", delay=spans, failure=_failure, ran=_ran, spent=st.just("no room for its dead letter")),
    _settling("abandon", failure=_failure, ran=_ran, dead_letter=_yes),
    _settling("snooze", delay=spans, waits=st.integers(0, 1)),
    _settling("snooze", awaits=signal_names, notes=st.just((("~nap", b"30"),)), delay=spans),
    _settling("park", delay=spans),
    _settling("cancelled", failure=_failure, ran=_ran),
    _settling("release"),
    _settling("crashed"),
)


def settlement(move: str, options: Options, lease: Lease, can: Capabilities) -> Settlement:
    given: dict[str, Any] = dict(options)
    if move == "crashed":
        given["cause"] = "killed by SIGKILL"
    if move in {"skip", "abandon", "park", "cancelled"}:
        given["reason"] = f"{move} because"
    if move in {"snooze", "park"}:
        given.setdefault("delay", 30.0)
    if move == "snooze":
        given.setdefault("waits", 0 if "awaits" in given else lease.waits + 1)  # as for a hold
        if not can.notes:
            given = {name: value for name, value in given.items() if name not in {"awaits", "notes"}}
    if move in {"ack", "nack", "abandon", "cancelled"}:
        given["duration_ms"] = 7
    if "dead_letter" in given:
        # The same id whenever the same run is abandoned.
        dead = derived_id(lease.envelope.id, lease.token, "dead letter")
        given["dead_letter"] = an_envelope(dead, {"job": "dead_letter"}, lease.claimed_at, can)
    built: Settlement = getattr(Settlement, move)(lease, **given)
    return built


claims = st.builds(
    Claim,
    queues=st.sampled_from((QUEUES, QUEUES[::-1], QUEUES, QUEUES[:1], QUEUES[1:])),
    limit=st.sampled_from((1, 2, 3, 4, 2, 3, 0)),
    at_most=st.sampled_from(({}, {}, {}, {}, {"mail": 1}, {"mail": 0, "slow": 2})),
    begins=st.sampled_from((None, None, None, 1, 0)),
)


def _query(group: str | None, **options: Any) -> Query:
    return Query(**options) if group is None else Query(**(options | {"job": "work"}), fingerprint=group)


def narrowed(query: Query, ids: tuple[str, ...] | None, can: Capabilities) -> Query:
    """Return a query of jobs by their ids, if there are any; without a group where the store has none."""
    group = query.fingerprint if can.groups_deaths else None
    return msgspec.structs.replace(query, ids=ids, fingerprint=group)


queries = st.builds(
    _query,
    group=st.sampled_from((None, None, None, _FINGERPRINT, "unexplained", "crashed")),
    states=st.none() | st.frozensets(st.sampled_from(State), min_size=1),
    queue=st.sampled_from((None, *QUEUES)),
    job=st.sampled_from((None, None, "work")),
    limit=st.sampled_from((1, 2, 100)),
    newest_first=st.booleans(),
)
