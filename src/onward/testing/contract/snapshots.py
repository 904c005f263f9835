"""One snapshot: a job that moves between live and finished during a look is seen exactly once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from onward.backend import Query
from onward.job.states import State
from onward.testing.contract.builders import a_claim, at_once, ids, some_envelopes
from onward.testing.contract.capabilities import needs

__all__ = ["SnapshotsContract"]


@needs("inspection")
class SnapshotsContract:
    ROUNDS = 60

    @pytest.fixture
    def jobs(self, backend):
        envelopes = some_envelopes(4)
        backend.enqueue(envelopes)
        return ids(envelopes)

    @pytest.fixture
    def seen_while_moving(self, backend, jobs):
        """Call ``look`` over and over while the jobs are cancelled, replayed, run and abandoned; return what it saw."""

        def hammer(look: Callable[[], object]) -> list[object]:
            moving = threading.Event()

            def move() -> None:
                try:
                    for _ in range(self.ROUNDS):
                        backend.cancel(jobs[:2], "moving")
                        for lease in backend.claim(a_claim(limit=9)):
                            backend.abandon(lease, "moving")
                        backend.replay(Query(ids=tuple(jobs)))
                finally:
                    moving.set()

            def watch() -> list[object]:
                seen = [look()]
                while not moving.is_set():
                    seen.append(look())
                return seen

            _, seen = at_once(2, lambda side: move() if side == 0 else watch())
            assert seen is not None
            return seen

        return hammer

    def test_a_job_on_the_move_is_always_found(self, open_client, jobs, seen_while_moving):
        other = open_client()

        seen = seen_while_moving(lambda: other.get(jobs[0]) is not None)

        assert all(seen)

    def test_a_job_on_the_move_is_listed_exactly_once(self, open_client, jobs, seen_while_moving):
        other = open_client()

        seen = seen_while_moving(lambda: tuple(ids(other.list(Query()))))

        assert set(seen) == {tuple(jobs)}

    def test_a_job_on_the_move_is_counted_exactly_once(self, open_client, jobs, seen_while_moving):
        other = open_client()

        seen = seen_while_moving(lambda: sum(other.counts().values()))

        assert set(seen) == {len(jobs)}

    def test_a_listed_job_is_shown_in_one_state_with_what_belongs_to_it(self, open_client, jobs, seen_while_moving):
        other = open_client()

        def torn() -> list[str]:
            # A finished job has its instant and its reason; a live one has neither.
            return [
                job.id
                for job in other.list(Query())
                if (job.state in (State.CANCELLED, State.DISCARDED)) != (job.finished_at is not None)
            ]

        assert all(found == [] for found in seen_while_moving(torn))
