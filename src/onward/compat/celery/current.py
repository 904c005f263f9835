"""The application of this process that shared tasks, results by id and signatures by name belong to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from onward.compat.celery.protocols import OfApplication

__all__ = ["CURRENT"]


class Current:
    """The newest application, and the tasks that were shared with all of them."""

    def __init__(self) -> None:
        self.make: Callable[[], OfApplication] | None = None  # makes one where a program makes none
        self.shared: dict[str, Any] = {}
        self._app: OfApplication | None = None
        self._lock = threading.RLock()

    @property
    def app(self) -> OfApplication:
        """The application that was made last; made now, with Onward's settings, if there is none."""
        with self._lock:
            if self._app is None:
                assert self.make is not None  # `onward.compat.celery.app` is imported with the package
                self._app = self.make()
            return self._app

    def set(self, app: OfApplication | None) -> None:
        with self._lock:
            self._app = app


CURRENT = Current()
