"""The walk over lanes, where a store answers it from more than one moment."""

from typing import NamedTuple

from onward.flow.limits import Bounds
from onward.flow.room import Gate
from onward.flow.walk import Cursors, Walk

LANE = "render/822bacme"


class Waiting(NamedTuple):
    id: str
    crashes: int = 0
    cost: int | None = None


class MovingView:
    """One lane.  After the first look at it another process gives back a job, which is first in line."""

    now = 0
    any_gates = False

    def __init__(self):
        self.line = [Waiting("b"), Waiting("c"), Waiting("d")]
        self.looks = 0

    def rank_after(self, queue, rank):
        return 0 if rank is None else None

    def lane_after(self, queue, rank, after, before):
        return LANE if after < LANE < before else None

    def heads(self, queue, rank, lane, skip, count):
        if lane != LANE:
            return []
        self.looks += 1
        if self.looks == 2:
            self.line.insert(0, Waiting("a"))
        return self.line[skip : skip + count]

    def bounds(self, kind, name):
        return Bounds()

    def gate(self, scope):
        return Gate()

    def running(self, scope, since=0):
        return 0


def test_a_job_is_picked_once_though_others_come_back_meanwhile():
    view = MovingView()
    walk = Walk(view, Cursors(), limit=10)

    walk.queue("default", 10)

    picked = [pick.job.id for pick in walk.result().picks]
    assert view.looks > 1
    assert sorted(picked) == sorted(set(picked))
    assert picked == ["b", "c", "d"]
