"""The thread that books what schedules have due: in one process of each supervisor, or in a program with a worker."""

from __future__ import annotations

import random
from collections.abc import Callable

from onward.base.logs import get_logger
from onward.errors import BackendError

__all__ = ["Ticker"]

logger = get_logger("onward.schedules")


class Ticker:
    """Looks at the start and every ten seconds.  Ticks are booked a minute ahead, so that a look may fail or come late."""

    def __init__(
        self,
        look: Callable[[], object],
        wait: Callable[[float], bool],
        *,
        is_outage: Callable[[], bool],
        every: float = 10.0,
    ) -> None:
        """``wait``: for so many seconds; True once the worker has ended.  ``is_outage``: whether the log knows of one."""
        self._look = look
        self._wait = wait
        self._is_outage = is_outage
        self._every = every

    def run(self) -> None:
        """Look again and again until the end.  No error of a look ends the worker."""
        while True:
            try:
                self._look()
            except BackendError as error:
                if not self._is_outage():
                    logger.warning("schedules could not be booked, and will be soon: %s", error)
            except Exception:
                logger.exception("schedules could not be booked, and will be tried again")
            # Supervisors that started together must not look in step.
            if self._wait(self._every * random.uniform(0.8, 1.2)):
                return
