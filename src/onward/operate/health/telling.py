"""Telling subscribers when a check changes: once a minute, by the process of the fleet that is the sampler.

What did not pass a minute ago stands in a row of the series, so that the next sampler, in whichever process it is, compares
with that.  Subscribers are told before the row is stored: one of them may be told twice after a crash, and none is left out.
"""

from __future__ import annotations

import threading
from typing import cast

from onward.backend import Backend, Check, Inspection, Look, Sample
from onward.base.logs import get_logger
from onward.contract.samples import MINUTE
from onward.operate.health.asking import HealthChecker
from onward.operate.health.changes import compare
from onward.operate.series.measured import CheckResult, Measured
from onward.telemetry import HealthChanged, Telemetry

__all__ = ["HealthTeller"]

logger = get_logger("onward.health")

_REPORTER = "health"  # of the rows with checks
_NO_SESSION = ""
_LOOKED_BACK = 60 * MINUTE
_MOST_ROWS = 10_000
_STORE_EVERY = 10  # minutes: the store's own checks may read much


class HealthTeller:
    """Compares the checks of a fleet with those of a minute ago, and tells what changed."""

    def __init__(self, checker: HealthChecker, backend: Backend, telemetry: Telemetry) -> None:
        self._checker = checker
        self._backend = backend
        self._telemetry = telemetry
        self._comparing = threading.Lock()
        self._complained = False

    def on_sampler(self) -> None:
        """Compare, on a thread of its own, if a subscriber wants to know.  Called when this process is the sampler."""
        if self._telemetry.wants(HealthChanged) and isinstance(self._backend, Inspection):
            threading.Thread(target=self._compare_quietly, name="onward-health", daemon=True).start()

    def compare(self) -> list[HealthChanged]:
        """Tell what changed since the last comparison of any process, and store what does not pass now."""
        store = cast("Inspection", self._backend)
        now = store.look(Look(at_most=1)).now
        minute = now - now % MINUTE
        before = self._before(store, minute)
        checks = self._checker.of_fleet()
        if minute // MINUTE % _STORE_EVERY == 0:
            checks += self._checker.of_store()
        else:
            names = {check.name for check in checks}
            checks += [check for check in before if check.name not in names]
        changes = compare(before, checks)
        for change in changes:
            logger.warning("health.%s %s, was %s: %s", change.check, change.status, change.before, change.detail)
            self._telemetry.emit(change)
        results = tuple((check.name, check.status, check.about) for check in checks if check.status != "ok")
        data = Measured(minutes=0, checks=results).encoded()
        self._backend.extend(_NO_SESSION, sample=Sample(_REPORTER, minute, data))
        return changes

    def _before(self, store: Inspection, minute: int) -> list[Check]:
        """Return what did not pass when a process compared last; nothing if that is long ago."""
        rows = store.look(Look(series=(minute - _LOOKED_BACK, minute + MINUTE), at_most=_MOST_ROWS)).series
        measured = [Measured.decoded(row.data) for row in sorted(rows, key=lambda row: row.at)]
        results = [each.checks for each in measured if each is not None and each.checks is not None]
        return [_check(each) for each in results[-1]] if results else []

    def _compare_quietly(self) -> None:
        """Compare; what goes wrong with that changes no job."""
        if not self._comparing.acquire(blocking=False):
            return
        try:
            self.compare()
        except Exception as error:  # noqa: BLE001  the sampler of the next minute does it
            if not self._complained:
                self._complained = True
                logger.warning("checks could not be compared: %s; this is not logged again", error)
        finally:
            self._comparing.release()


def _check(result: CheckResult) -> Check:
    name, status, about = result
    return Check(name=name, status=status, detail="", about=tuple(about))
