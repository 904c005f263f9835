"""The life of a job: its states and the only moves between them.

    enqueue ──▶ scheduled ──due──▶ available ──claim──▶ executing ──ack, skip──▶ completed
       │            ▲                ▲   ▲                │ │ │ │
       └────────────┼────────────────┘   │                │ │ │ └──abandon, too many crashes──▶ discarded
                    │                    └───release──────┘ │ └────cancelled──▶ cancelled
                    ├───────────snooze, park────────────────┤
                    │                                       │
                    └─due── retryable ◀──nack, crash────────┘        discarded, cancelled ──replay──▶ available

These tables are the single source of truth: backends store these words, a tool draws the picture in the docs from them, and
the contract suite tries every arrow and every missing one.  `SETTLING` also says how each end of a lease is reported: a new
settling move is one row there.
"""

from __future__ import annotations

from enum import StrEnum
from logging import CRITICAL, DEBUG, ERROR, INFO, WARNING
from typing import NamedTuple

__all__ = [
    "DEAD_LETTER_REFUSED",
    "DROPPED",
    "FINISHED",
    "LEASE_GONE",
    "LIVE",
    "MOVES",
    "SETTLING",
    "TARGETS",
    "WAITING",
    "Move",
    "SettlingRow",
    "State",
    "allows",
    "state_named",
]


class State(StrEnum):
    """The state of a job.  A ``str``, so ``record.state == "completed"`` works."""

    SCHEDULED = "scheduled"
    AVAILABLE = "available"
    EXECUTING = "executing"
    RETRYABLE = "retryable"
    COMPLETED = "completed"
    DISCARDED = "discarded"
    CANCELLED = "cancelled"


def state_named(word: str) -> State:
    """Return the state that a store names.  An unknown word is shown as it is, and equal to no state.

    >>> state_named("completed") is State.COMPLETED, str(state_named("nonsense"))
    (True, 'nonsense')
    """
    known = _WORDS.get(word)
    if known is not None:
        return known
    unknown = str.__new__(State, word)
    unknown._name_ = unknown._value_ = word
    return unknown


_WORDS = {state.value: state for state in State}
LIVE = frozenset({State.SCHEDULED, State.AVAILABLE, State.EXECUTING, State.RETRYABLE})
FINISHED = frozenset({State.COMPLETED, State.DISCARDED, State.CANCELLED})
WAITING = LIVE - {State.EXECUTING}


class SettlingRow(NamedTuple):
    """One end of a lease: where the job goes, and how that is reported."""

    target: State
    status: str  # of `process_once`
    counters: tuple[str, ...]
    event: str | None  # a class of `onward.telemetry`
    log: str  # how its log line begins
    level: int
    line: str  # what its log line says besides job and id


_RAN = " attempt %(attempt)d in %(took)s"

# Each but `ack` may also end in `cancelled`: the store turns the move of a job that was asked to cancel, in the same write.
SETTLING: dict[str, SettlingRow] = {
    "ack": SettlingRow(State.COMPLETED, "acked", ("jobs_succeeded",), "JobCompleted", "job.completed", DEBUG, _RAN),
    "skip": SettlingRow(
        State.COMPLETED,
        "skipped-idempotent",
        ("jobs_skipped_idempotent",),
        "JobDeduplicated",
        "job.skipped",
        DEBUG,
        ": %(why)s",
    ),
    "nack": SettlingRow(
        State.RETRYABLE,
        "requeued",
        ("jobs_failed", "jobs_requeued"),
        "JobFailed",
        "job.failed",
        WARNING,
        f"{_RAN}, retry in %(delay)s: %(why)s",
    ),
    "snooze": SettlingRow(
        State.SCHEDULED,
        "snoozed",
        ("jobs_snoozed",),
        "JobSnoozed",
        "job.snoozed",
        DEBUG,
        f"{_RAN}, again in %(delay)s",
    ),
    "park": SettlingRow(
        State.SCHEDULED,
        "parked",
        ("jobs_parked",),
        "JobParked",
        "job.parked",
        WARNING,
        ", looked at again in %(delay)s: %(why)s",
    ),
    "release": SettlingRow(State.AVAILABLE, "released", (), None, "job.released", DEBUG, ""),
    # The cause of the discard says which counters move besides (`onward.job.outcome`).
    "abandon": SettlingRow(
        State.DISCARDED, "dead-lettered", (), "JobDiscarded", "job.discarded", CRITICAL, f"{_RAN}: %(why)s"
    ),
    "cancelled": SettlingRow(
        State.CANCELLED,
        "cancelled",
        ("jobs_cancelled",),
        "JobCancelled",
        "job.cancelled",
        INFO,
        " attempt %(attempt)d: %(why)s",
    ),
    # At `max_crashes` the move is `reap_poison`.  Counters, event and line are those of a reaped lease.
    "crashed": SettlingRow(State.RETRYABLE, "requeued", (), None, "job.crashed", DEBUG, f"{_RAN}: %(why)s"),
}

# Reported instead: the lease was lost; the store refused the dead letter for good; the store refused it for now.
LEASE_GONE = SettlingRow(
    State.EXECUTING, "lease-lost", ("leases_lost",), "JobLeaseLost", "lease.lost", WARNING, f"{_RAN}: %(why)s"
)
DROPPED = SettlingRow(
    State.CANCELLED, "cancelled", ("jobs_dlq_failed",), "JobDiscarded", "job.dropped", CRITICAL, f"{_RAN}: %(why)s"
)
DEAD_LETTER_REFUSED = SettlingRow(
    State.RETRYABLE,
    "requeued",
    ("jobs_dlq_failed",),
    None,
    "job.dead_letter_refused",
    ERROR,
    ", again in %(delay)s: %(why)s",
)


class Move(NamedTuple):
    """One arrow: from any of ``sources``, by ``name``, to ``target``."""

    name: str
    sources: frozenset[State | None]
    target: State


def _move(name: str, sources: State | frozenset[State] | None, target: State) -> Move:
    return Move(name, frozenset(sources) if isinstance(sources, frozenset) else frozenset({sources}), target)


MOVES: tuple[Move, ...] = (
    _move("enqueue", None, State.AVAILABLE),
    _move("enqueue_later", None, State.SCHEDULED),
    _move("due", frozenset({State.SCHEDULED, State.RETRYABLE}), State.AVAILABLE),
    _move("claim", State.AVAILABLE, State.EXECUTING),
    *(_move(name, State.EXECUTING, row.target) for name, row in SETTLING.items()),
    # The leases of a session that died.
    _move("reap_started", State.EXECUTING, State.RETRYABLE),
    _move("reap_poison", State.EXECUTING, State.DISCARDED),
    _move("reap_unstarted", State.EXECUTING, State.AVAILABLE),
    _move("reap_cancelled", State.EXECUTING, State.CANCELLED),
    # Requests of people.
    _move("cancel", WAITING, State.CANCELLED),
    _move("expire", WAITING, State.CANCELLED),
    _move("retry", frozenset({State.SCHEDULED, State.RETRYABLE}), State.AVAILABLE),
    _move("replay", frozenset({State.DISCARDED, State.CANCELLED}), State.AVAILABLE),
)

_TARGETS = {(move.name, source): move.target for move in MOVES for source in move.sources}
TARGETS = {move.name: move.target for move in MOVES}  # a move always leads to the same state


def allows(name: str, source: State | None) -> bool:
    """Return whether the table has this arrow.

    >>> allows("ack", State.EXECUTING), allows("ack", State.COMPLETED)
    (True, False)
    """
    return (name, source) in _TARGETS
