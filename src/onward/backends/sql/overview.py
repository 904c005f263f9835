"""Looking at a database: the cost of a look does not depend on how many jobs wait or have ended.

clock                       the store's now
overview, overview_later    counts by state
overview_due_by_queue       queue, available jobs; a queue may have several rows
overview_later_by_queue     queue, scheduled and retryable jobs, and when the first of them is due: booked ones apart
overview_running_by_queue   queue, jobs that run
overview_oldest             queue, since when the first job of each of its lines is due; a queue may have several rows
pauses                      paused queues, and since when
series                      rows of samples (`samples`)
ahead, ahead_in_lane        how many available jobs come before a place in a line
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from onward.backend import (
    OVERVIEW_QUEUES,
    DeathGroup,
    JobPlace,
    KeyHolder,
    Look,
    Overview,
    QueueCounts,
    Snapshot,
    StoredJob,
)
from onward.backends.damage import set_aside_and_repeat
from onward.backends.sql import rows
from onward.backends.sql.audit import audit_page
from onward.backends.sql.deaths import death_groups
from onward.backends.sql.holds import ONCE, SINGLE, HoldKey, HoldRow
from onward.backends.sql.limits import limits_of
from onward.backends.sql.rows import Row
from onward.backends.sql.samples import series_between
from onward.backends.sql.statements import SqlTransaction
from onward.contract.limits import UsageView, states_over
from onward.contract.snapshot import LOOK_SECONDS, OLDEST_LINES
from onward.job.states import LIVE, State

__all__ = ["SqlOverview", "oldest_of"]

Tx = TypeVar("Tx", bound=SqlTransaction)
Result = TypeVar("Result")


class SqlOverview(Generic[Tx]):
    """The `look` of a backend."""

    @abstractmethod
    def _read_briefly(self, act: Callable[[Tx], Result], seconds: float = LOOK_SECONDS) -> Result:
        """Run it in one snapshot; raise `BackendUnavailable` if it takes longer."""

    @abstractmethod
    def _lane_view(self, tx: Any) -> UsageView:
        """Return what a walk would find now."""

    @abstractmethod
    def _hold_rows(self, tx: Tx, keys: Sequence[HoldKey]) -> Sequence[Row]:
        """Return the rows of `holds` for these keys."""

    @set_aside_and_repeat
    def look(self, look: Look) -> Snapshot:
        def seen(tx: Tx) -> Snapshot:
            now = tx.ask("clock").value()
            return Snapshot(
                now=now,
                overview=self._overview(tx, look.at_most, now) if look.counts else None,
                place=None if look.place_of is None else self._place(tx, look.place_of, look.at_most, now),
                deaths=self._deaths(tx, look.at_most) if look.deaths else [],
                audit=() if look.audit is None else audit_page(tx, look.audit),
                series=series_between(tx, look.series, look.at_most),
            )

        return self._read_briefly(seen)

    def _overview(self, tx: Tx, at_most: int, now: int) -> Overview:
        overview, later = tx.ask("overview", at_most=at_most), tx.ask("overview_later", at_most=at_most)
        queues = _queues(tx, at_most, now)
        ((available, executing, everything, tombstones, discarded, cancelled, ended),) = overview.rows()
        ((scheduled, retryable),) = later.rows()
        # Completed jobs have no index of their own: they are all the others, as long as all were counted.
        completed = at_most if everything == at_most else everything - discarded - cancelled - tombstones
        counts = {
            State.SCHEDULED: scheduled,
            State.AVAILABLE: available,
            State.EXECUTING: executing,
            State.RETRYABLE: retryable,
            State.COMPLETED: completed,
            State.DISCARDED: discarded,
            State.CANCELLED: cancelled,
        }
        return Overview(counts=counts, queues=queues, ended=ended)

    def _deaths(self, tx: Tx, at_most: int) -> list[DeathGroup]:
        return death_groups(tx, at_most)

    def _place(self, tx: Tx, job_id: str, at_most: int, now: int) -> JobPlace | None:
        found = rows.live_before_finished(tx.ask("pick", ids=[job_id]).rows())
        if not found:
            return None
        job = rows.stored_jobs(found, tx.ask("runs_of", ids=[job_id]).rows())[0]
        if job.is_finished:
            return JobPlace(job=job)
        return JobPlace(
            job=job,
            ahead=0 if job.state is State.EXECUTING else _ahead(tx, job, at_most),
            holders=tuple(self._holders(tx, job, now)),
            limits=states_over(job.queue, job.lane, limits_of(tx), self._lane_view(tx)),
        )

    def _holders(self, tx: Tx, job: StoredJob, now: int) -> Iterable[KeyHolder]:
        carried = ((ONCE, job.idempotency_key), (SINGLE, job.single_instance))
        keys = [(kind, key) for kind, key in carried if key is not None]
        for row in self._hold_rows(tx, keys) if keys else ():
            hold = HoldRow(*row)
            holds = hold.runs if hold.done_until is None else hold.done_until > now
            if holds and hold.job_id not in ("", job.id):
                yield KeyHolder(
                    key=hold.key,
                    single_instance=hold.kind == SINGLE,
                    job_id=hold.job_id,
                    done_until=hold.done_until,
                )


def _ahead(tx: SqlTransaction, job: StoredJob, at_most: int) -> int:
    """Return how many available jobs come before a job in its line."""
    place = {"queue": job.queue, "rank": -job.priority, "available_at": job.available_at, "id": job.id}
    if job.lane is None:
        return int(tx.ask("ahead", **place, at_most=at_most).value())
    return int(tx.ask("ahead_in_lane", **place, lane=job.lane, at_most=at_most).value())


def _queues(tx: SqlTransaction, at_most: int, now: int) -> list[QueueCounts]:
    due = tx.ask("overview_due_by_queue", at_most=at_most, queues=OVERVIEW_QUEUES)
    later = tx.ask("overview_later_by_queue", at_most=at_most, queues=OVERVIEW_QUEUES)
    running = tx.ask("overview_running_by_queue", at_most=at_most)
    oldest, stopped = (
        tx.ask("overview_oldest", lines=OLDEST_LINES, steps=OLDEST_LINES * OVERVIEW_QUEUES),
        tx.ask("pauses"),
    )
    counts: defaultdict[str, dict[State, int]] = defaultdict(lambda: dict.fromkeys(sorted(LIVE), 0))
    waits_since: defaultdict[str, list[int | None]] = defaultdict(list)
    for name, available in due.rows():  # jobs with lanes may be counted apart
        counts[name][State.AVAILABLE] = min(at_most, counts[name][State.AVAILABLE] + available)
    for name, scheduled, retryable, *first in later.rows():
        counts[name][State.SCHEDULED], counts[name][State.RETRYABLE] = scheduled, retryable
        waits_since[name] += [at for at in first if at is not None and at <= now]
    for name, executing in running.rows():
        counts[name][State.EXECUTING] = executing
    for name, since in oldest.rows():
        waits_since[name].append(since)
    paused: dict[str, int] = dict(stopped.rows())
    names = sorted(counts.keys() | paused)[:OVERVIEW_QUEUES]
    return [
        QueueCounts(
            name=name,
            paused=name in paused,
            counts=counts[name],
            oldest_due=oldest_of(waits_since[name]),
            paused_at=paused.get(name),
        )
        for name in names
    ]


def oldest_of(instants: Iterable[int | None]) -> int | None:
    """Return the first of these instants; None if there is none."""
    return min((at for at in instants if at is not None), default=None)
