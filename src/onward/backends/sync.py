"""Jobs that run in the thread that enqueues them: the memory backend on a clock that jumps to the next due time.

For scripts and tests.  Retries are real; the clock jumps over delays.
"""

from __future__ import annotations

from onward.backends.memory import MemoryBackend
from onward.base.clock import Clock, JumpingClock

__all__ = ["SyncBackend"]


class SyncBackend(MemoryBackend):
    """Jobs in memory, on a clock that jumps to the next one that is due."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.jumping = clock if isinstance(clock, JumpingClock) else JumpingClock(clock)
        super().__init__(clock=self.jumping)

    def jump(self) -> bool:
        with self._writing() as now:
            queues = {job.queue for job in self._store.live.values()} - self._store.paused.keys()
            due = [at for queue in queues if (at := self._next_due(queue)) is not None]
            if not due:
                return False
            self.jumping.jump_to(max(now, min(due)))
            return True
