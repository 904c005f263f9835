"""Calling code of an integration so that it never fails a job: what it raises is logged once, and the job goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar
from weakref import WeakSet

from onward.app import Onward
from onward.base.failure import kind_of
from onward.base.logs import Once, get_logger
from onward.errors import JobStopped, OptionError
from onward.job.context import JobContext
from onward.job.outcome import waits

__all__ = ["Installed", "has_failed", "quietly"]

P = ParamSpec("P")
T = TypeVar("T")

logger = get_logger("onward")

_warns = Once()


def quietly(act: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Call this; if it raises, log that once for each kind of error, and return None."""
    try:
        return act(*args, **kwargs)
    except Exception as error:  # noqa: BLE001  whatever a tool beside the job raises, the job goes on
        name, kind = f"{act.__module__}.{act.__qualname__}", kind_of(error)
        if _warns(name, kind):
            logger.warning("%s raised %s: jobs go on without it, and this is not logged again", name, kind)
        return None


class Installed:
    """The applications that an integration was installed in: once is enough, twice would report everything twice."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._applications: WeakSet[Onward] = WeakSet()

    def add(self, jobs: Onward) -> None:
        """Remember an application; raise if it is here already, or is none."""
        if not isinstance(jobs, Onward):
            raise OptionError(f"{self._module}.install takes an application, Onward(...), not {jobs!r:.60}")
        if jobs in self._applications:
            raise OptionError(f"{self._module} is installed in this application already: call install once")
        self._applications.add(jobs)


def has_failed(ctx: JobContext, error: BaseException | None) -> bool:
    """Return whether a run that ended with this has failed.  To snooze, to sleep or to be cancelled is no failure."""
    if error is None or ctx.completed is not None or ctx.cancelled:
        return False
    return not isinstance(error, JobStopped) and not waits(error)
