"""Claims on the model: what expires, what is promoted, and who is next."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator

from onward.backend import Claim
from onward.job.states import State
from onward.testing.machine.model_job import ModelJob
from onward.testing.machine.model_lanes import Followed, ModelLanes

__all__ = ["ModelClaims"]

Turns = list[tuple[str, str]]  # group and lane of what was claimed in one priority of a queue


class ModelClaims(ModelLanes):
    """Who is next: computed where jobs have no lanes and queues no limits, else compared with what the contract allows."""

    events: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.paused: dict[str, int] = {}
        self.followed: Followed | None = None  # in a story with lanes: what the backend did

    @abstractmethod
    def finish(self, job: ModelJob, state: State, reason: str | None) -> None: ...

    def _open_queues(self, claim: Claim) -> Iterator[tuple[str, list[ModelJob]]]:
        for queue in claim.queues:
            if queue not in self.paused:
                yield queue, [job for job in self.live.values() if job.envelope.queue == queue]

    def _expire_and_promote(self, claim: Claim) -> int:
        promoted = 0
        for _, jobs in self._open_queues(claim):
            expired = [job for job in jobs if job.waiting and job.expired(self.now)]
            for job in sorted(expired, key=lambda job: (job.envelope.expires_at, job.id))[: claim.limit]:
                self.finish(job, State.CANCELLED, "expired")
                self.events["expired"] += 1
            due = [
                job for job in jobs if job.state in {State.SCHEDULED, State.RETRYABLE} and job.available_at <= self.now
            ]
            later = sorted((job for job in due if not job.booked), key=lambda job: (job.available_at, job.id))
            booked = [job for job in due if job.booked and claim.limit > 0]
            for job in [*later[: claim.limit], *booked]:
                job.state = State.AVAILABLE
                promoted += 1
        self.events["promoted"] += promoted
        return promoted

    def _next_in_line(self, claim: Claim, released: set[str]) -> Iterator[ModelJob]:
        """Yield who is next.  What was yielded is leased before the next is asked for."""
        if self.followed is not None:
            yield from self._follow(self.followed, claim, released)
            return
        taken = 0
        for queue, jobs in self._open_queues(claim):
            free = [job for job in jobs if job.state is State.AVAILABLE and not job.expired(self.now)]
            line = sorted((job for job in free if job.id not in released), key=lambda job: job.place)
            for job in line[: claim.at_most.get(queue, claim.limit)]:
                if taken == claim.limit:
                    return
                if job.crashes > 0:
                    self.events["suspect claimed alone" if not taken else "stopped before a suspect"] += 1
                    if not taken:
                        yield job
                    return
                taken += 1
                yield job

    # With lanes.

    def _follow(self, followed: Followed, claim: Claim, released: set[str]) -> Iterator[ModelJob]:
        """Yield what the backend claimed, as long as the contract allows it; and no less than it demands."""
        claimed, taken = iter(followed.claimed), 0
        begins = claim.limit if claim.begins is None else min(claim.begins, claim.limit)
        for queue, _ in self._open_queues(claim):
            turns: Turns = []
            rank: int | None = None
            until = min(claim.limit, taken + claim.at_most.get(queue, claim.limit))
            while taken < until and (heads := self._may_start(queue, released, begins)):
                if (job := self.live.get(next(claimed, ""))) is None:
                    assert taken, f"nothing was claimed, and {heads[0].id} may start"
                    assert any(head.crashes for head in heads), f"{taken} claimed, and {heads[0].id} may start"
                    self.events["stopped before a suspect"] += 1
                    return
                turns = turns if job.place[0] == rank else []
                rank = job.place[0]
                self._check_turn(job, heads, turns)
                limited = self.is_limited(job)
                self.charge(job)
                taken, begins = taken + 1, begins - limited
                self.events["claimed with a lane" if job.envelope.lane else "claimed beside lanes"] += 1
                yield job
                if job.crashes:
                    assert taken == 1, f"the suspect {job.id} was not claimed alone"
                    self.events["suspect claimed alone"] += 1
                    return
        assert next(claimed, None) is None, "more was claimed than may start"
        self._check_slots(followed, claim, taken, released)

    def _lines(self, queue: str, released: set[str]) -> list[list[ModelJob]]:
        """The jobs that wait, by priority and lane."""
        lines: dict[tuple[int, str], list[ModelJob]] = {}
        for job in sorted(self.live.values(), key=lambda job: job.place):
            free = job.envelope.queue == queue and job.state is State.AVAILABLE and not job.expired(self.now)
            if free and job.id not in released:
                lines.setdefault((job.place[0], job.envelope.lane or ""), []).append(job)
        return list(lines.values())

    def _may_start(self, queue: str, released: set[str], begins: int) -> list[ModelJob]:
        """The first of every lane, of the highest priority that has any which may start."""
        heads = [line[0] for line in self._lines(queue, released)]
        free = [head for head in heads if all(map(self.is_open, self.places(head)))]
        free = [head for head in free if begins > 0 or not self.is_limited(head)]
        return [head for head in free if head.place[0] == min(each.place[0] for each in free)]

    def _check_turn(self, job: ModelJob, heads: list[ModelJob], turns: Turns) -> None:
        """A group, and a lane in it, has its next turn once all others that may start have had theirs."""
        assert job in heads, f"{job.id} was claimed, and only the first of {[head.id for head in heads]} may start"
        groups, lane = [group for group, _ in turns], job.envelope.lane or ""
        lanes = [each for group, each in turns if group == job.group]
        passed = _passed_over(job.group, groups, {head.group for head in heads})
        assert not passed, f"{job.id} of {job.group!r} was claimed before {passed} had a turn"
        passed = _passed_over(lane, lanes, {head.envelope.lane or "" for head in heads if head.group == job.group})
        assert not passed, f"{job.id} of {lane!r} was claimed before {passed} had a turn"
        turns.append((job.group, lane))

    def _check_slots(self, followed: Followed, claim: Claim, taken: int, released: set[str]) -> None:
        """A claim that left jobs because they could not begin says so: else no process would ask again."""
        if followed.awaits_slots is None or taken >= claim.limit or claim.at_most:
            return
        left = [head for queue, _ in self._open_queues(claim) for head in self._may_start(queue, released, claim.limit)]
        assert followed.awaits_slots or not left, f"{left[0].id} could start, and the claim does not say so"

    def _book(self, claim: Claim, released: set[str]) -> None:
        """Schedule what the backend has booked: all of a lane that is closed by its own rate or gate, or none of it."""
        if self.followed is None:
            return
        scheduled = self.followed.scheduled
        for queue, jobs in self._open_queues(claim):
            missing = {job.id for job in jobs if job.state is State.AVAILABLE and job.id in scheduled}
            for line in self._lines(queue, set()):
                due = {each: at for each, at in self.due_when_booked(line).items() if each not in released}
                booked = {job.id: scheduled[job.id] for job in line if job.id in missing}
                assert booked in ({}, due), f"booked: {booked}, and it should be {due}"
                for job in line:
                    if job.id in booked:
                        job.state, job.available_at, job.booked = State.SCHEDULED, booked[job.id], True
                        self.events["booked"] += 1


def _passed_over(mine: str, turns: list[str], waiting: set[str]) -> set[str]:
    """Who waits and has had no turn since mine was last."""
    since = turns[len(turns) - turns[::-1].index(mine) :] if mine in turns else waiting
    return waiting - {mine} - set(since)
