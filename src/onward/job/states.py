"""The life of a job: its states and the only moves between them.

    enqueue ──▶ scheduled ──due──▶ available ──claim──▶ executing ──ack, skip──▶ completed
       │            ▲                ▲   ▲                │ │ │ │
       └────────────┼────────────────┘   │                │ │ │ └──abandon, too many crashes──▶ discarded
                    │                    └───release──────┘ │ └────cancelled──▶ cancelled
                    ├───────────snooze, park────────────────┤
                    │                                       │
                    └─due── retryable ◀──nack, crash────────┘        discarded, cancelled ──replay──▶ available

This table is the single source of truth: backends store these words, the docs draw their picture from it, and the
contract suite walks every arrow and tries every missing one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

__all__ = ["FINISHED", "LIVE", "MOVES", "TARGETS", "Move", "State", "allows", "state_named"]


class State(StrEnum):
    """Where a job is in its life.  A ``str``, so ``record.state == "completed"`` reads well."""

    SCHEDULED = "scheduled"
    AVAILABLE = "available"
    EXECUTING = "executing"
    RETRYABLE = "retryable"
    COMPLETED = "completed"
    DISCARDED = "discarded"
    CANCELLED = "cancelled"


def state_named(word: str) -> State:
    """The state that a store names.  A word that is none of ours is shown as it is, and equal to no state.

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


class Move(NamedTuple):
    """One arrow: from any of ``sources``, by ``name``, to ``target``."""

    name: str
    sources: frozenset[State | None]
    target: State


def _move(name: str, sources: State | frozenset[State] | None, target: State) -> Move:
    return Move(name, frozenset(sources) if isinstance(sources, frozenset) else frozenset({sources}), target)


_RUNNING = State.EXECUTING

MOVES: tuple[Move, ...] = (
    _move("enqueue", None, State.AVAILABLE),
    _move("enqueue_later", None, State.SCHEDULED),
    _move("due", frozenset({State.SCHEDULED, State.RETRYABLE}), State.AVAILABLE),
    _move("claim", State.AVAILABLE, _RUNNING),
    # Settlements.  Each may also end in `cancelled`: a job that was asked to cancel is turned by the store in
    # the same write, unless its success came first.
    _move("ack", _RUNNING, State.COMPLETED),
    _move("skip", _RUNNING, State.COMPLETED),
    _move("nack", _RUNNING, State.RETRYABLE),
    _move("snooze", _RUNNING, State.SCHEDULED),
    _move("park", _RUNNING, State.SCHEDULED),
    _move("release", _RUNNING, State.AVAILABLE),
    _move("abandon", _RUNNING, State.DISCARDED),
    _move("cancelled", _RUNNING, State.CANCELLED),
    _move("crashed", _RUNNING, State.RETRYABLE),  # or, once too often, `reap_poison`
    # What happens to the leases of a session that died.
    _move("reap_started", _RUNNING, State.RETRYABLE),
    _move("reap_poison", _RUNNING, State.DISCARDED),
    _move("reap_unstarted", _RUNNING, State.AVAILABLE),
    _move("reap_cancelled", _RUNNING, State.CANCELLED),
    # What people ask for.
    _move("cancel", WAITING, State.CANCELLED),
    _move("expire", WAITING, State.CANCELLED),
    _move("retry", frozenset({State.SCHEDULED, State.RETRYABLE}), State.AVAILABLE),
    _move("replay", frozenset({State.DISCARDED, State.CANCELLED}), State.AVAILABLE),
)

_TARGETS = {(move.name, source): move.target for move in MOVES for source in move.sources}
TARGETS = {move.name: move.target for move in MOVES}  # a move always leads to the same state


def allows(name: str, source: State | None) -> bool:
    """Whether the table has this arrow.

    >>> allows("ack", State.EXECUTING), allows("ack", State.COMPLETED)
    (True, False)
    """
    return (name, source) in _TARGETS
