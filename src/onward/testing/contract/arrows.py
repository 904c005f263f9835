"""Arrows: tests make every move of `onward.job.states.MOVES`, and try every move that is missing there."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from onward.backend import Query, StoredJob
from onward.job.states import MOVES, Move, State
from onward.testing.contract.builders import SETTLEMENTS, a_claim, an_envelope, micros
from onward.testing.contract.capabilities import needs
from onward.testing.contract.stage import FAR, Stage

__all__ = ["ArrowsContract"]


def _pass_by(stage: Stage) -> None:
    """Make a turn on the job's queue that claims another job: it expires and promotes, and does not reach this one."""
    stage.backend.enqueue([an_envelope(queue="bypass")])
    stage.backend.claim(a_claim(owner="passer-by", queues=("bypass", stage.envelope.queue)))


def _settle(name: str) -> Callable[[Stage], None]:
    def act(stage: Stage) -> None:
        stage.backend.settle([SETTLEMENTS[name](stage.lease)])

    return act


def _enqueue(stage: Stage) -> None:
    # Only a retried enqueue looks among the finished.
    stage.backend.enqueue([stage.envelope], retried=stage.state() is not None)


def _enqueue_later(stage: Stage) -> None:
    later = an_envelope(**(stage.options | {"id": stage.id, "delay": FAR}))
    stage.backend.enqueue([later], retried=stage.state() is not None)


def _due(stage: Stage) -> None:
    stage.clock.advance(FAR)
    _pass_by(stage)


def _claim(stage: Stage) -> None:
    stage.backend.claim(a_claim(owner="claimer", queues=(stage.envelope.queue,)))


def _reap_started(stage: Stage) -> None:
    stage.backend.reap(owner=stage.owner, started=[stage.held], cause="killed")


def _reap_unstarted(stage: Stage) -> None:
    stage.backend.reap(owner=stage.owner, started=[])


def _reap_cancelled(stage: Stage) -> None:
    if stage.state() is State.EXECUTING:
        stage.backend.cancel([stage.id], "not wanted")
    stage.backend.reap(owner=stage.owner, started=[])


def _cancel(stage: Stage) -> None:
    stage.backend.cancel([stage.id], "not wanted")


def _expire(stage: Stage) -> None:
    stage.clock.advance(2 * FAR)
    _pass_by(stage)


def _retry(stage: Stage) -> None:
    stage.backend.retry([stage.id])


def _replay(stage: Stage) -> None:
    stage.backend.replay(Query(ids=(stage.id,)))


# The call for each move.  On a job that may not make the move, the same call must change nothing.
WALKS: dict[str, Callable[[Stage], None]] = {
    "enqueue": _enqueue,
    "enqueue_later": _enqueue_later,
    "due": _due,
    "claim": _claim,
    **{name: _settle(name) for name in SETTLEMENTS},
    "reap_started": _reap_started,
    "reap_poison": _reap_started,
    "reap_unstarted": _reap_unstarted,
    "reap_cancelled": _reap_cancelled,
    "cancel": _cancel,
    "expire": _expire,
    "retry": _retry,
    "replay": _replay,
}

_ARROWS = [(move, state) for move in MOVES for state in [None, *State] if state in move.sources]
_MISSING = [(move, state) for move in MOVES for state in [None, *State] if state not in move.sources]


def _name(value: Move | State | None) -> str:
    return value.name if isinstance(value, Move) else str(value)


def _stage(backend, clock, move: Move) -> Stage:
    # One crash makes poison; an expiry lies far ahead, so that only the walk to it gets there.
    expires_at = clock.micros() + micros(1.5 * FAR) if move.name == "expire" else None
    return Stage(backend, clock, max_crashes=1 if move.name == "reap_poison" else 3, expires_at=expires_at)


def _without_asking(stored: StoredJob | None) -> StoredJob | None:
    """Return the job without its mark: asking a running job to cancel is no move, it only marks the job."""
    return stored and msgspec.structs.replace(stored, cancel_reason=None, reason=None)


@needs("inspection", "delays")
class ArrowsContract:
    def test_every_move_of_the_table_has_a_walk(self):
        assert set(WALKS) == {move.name for move in MOVES}

    @pytest.mark.parametrize(("move", "source"), _ARROWS, ids=_name)
    def test_an_arrow_of_the_table_leads_where_the_table_says(self, backend, clock, move, source):
        stage = _stage(backend, clock, move).bring(source)

        WALKS[move.name](stage)

        assert stage.state() is move.target
        assert backend.counts(stage.envelope.queue) == dict.fromkeys(State, 0) | {move.target: 1}

    @pytest.mark.parametrize(("move", "state"), _MISSING, ids=_name)
    def test_an_arrow_missing_from_the_table_changes_nothing(self, backend, clock, move, state):
        stage = _stage(backend, clock, move).bring(state)
        before, counts = stage.stored(), backend.counts(stage.envelope.queue)

        WALKS[move.name](stage)

        after = stage.stored()
        if move.name == "cancel" and state is State.EXECUTING:
            before, after = _without_asking(before), _without_asking(after)
        assert after == before
        assert backend.counts(stage.envelope.queue) == counts
