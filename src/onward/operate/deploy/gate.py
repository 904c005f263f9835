"""Asking a store for every job that waits, and this application whether its worker would call the handler of each.

What an attempt does before it calls a handler is done here by the same functions (`onward.attempt.resolve`, `Entry.fit`),
without a lease: no handler runs, nothing is claimed, nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from onward.attempt.attempt import Runtime, scrubber
from onward.attempt.resolve import Obstacle, Resolved, impossible, overdrawn, resolve
from onward.backend import Backend, Inspection, Look, Query, Schedules, StoredJob
from onward.base.failure import describe, message_of
from onward.base.names import serves
from onward.base.wording import counted
from onward.client.record import Records
from onward.contract.description import WorkerDescription
from onward.errors import OptionError
from onward.job.arguments import DoesNotFit
from onward.job.envelope import Sealed
from onward.job.states import FINISHED, LIVE, State
from onward.operate.deploy.gathering import Gathered, Trouble
from onward.operate.deploy.problem import FIXES, DeployProblem, DeployReport

__all__ = ["DeployGate", "trouble_of"]

_PAGE = 500
_SHOWN = 8  # arguments of a call that are named


class DeployGate:
    """Checks whether this build can run what waits in its store."""

    def __init__(
        self,
        backend: Backend,
        inspection: Inspection,
        runtime: Runtime,
        records: Records,
        *,
        declared: Mapping[str, Any],
        refuse_to_run: Callable[[], None],
    ) -> None:
        """``declared``: the schedules of this build, by name.  ``refuse_to_run`` raises if its worker could not start."""
        self._backend = backend
        self._inspection = inspection
        self._runtime = runtime
        self._records = records
        self._declared = declared
        self._refuse_to_run = refuse_to_run

    def check(
        self,
        *,
        queues: Iterable[str] | None = None,
        elsewhere: Iterable[str] = (),
        sample: int | None = None,
        dead: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> DeployReport:
        """Check every job that waits or runs against this build; claim nothing, run no handler, change nothing.

        ``queues``: those that workers of this build serve, if not those of its jobs; ``elsewhere``: those that another
        application serves, whose jobs are not checked.  ``sample``: only so many of the oldest and newest jobs of each
        name.  ``dead``: the discarded ones, too.  ``progress`` is called with the number of jobs of each page.
        """
        if sample is not None and (isinstance(sample, bool) or not isinstance(sample, int) or sample < 1):
            raise OptionError(f"sample must be a number of at least 1, not {sample!r:.60}")
        self._refuse_to_run()
        served = _Queues(self._runtime.registry.queues() if queues is None else queues)
        others, states = _Queues(elsewhere), LIVE | {State.DISCARDED} if dead else LIVE
        gathered, checked, blocked = Gathered(), 0, 0
        now = self._inspection.look(Look()).now
        for page in self._pages(states, sample):
            here = [job for job in page if not others[job.queue]]
            checked += len(here)
            blocked += sum(self._blocks(job, served, now, gathered) for job in here)
            if progress is not None:
                progress(len(page))
        problems = (*gathered.problems(now), *self._schedules(), *self._unknown_to_workers(now))
        return DeployReport(checked=checked, blocked=blocked, problems=problems, sampled=sample is not None)

    def _blocks(self, job: StoredJob, served: _Queues, now: int, gathered: Gathered) -> bool:
        """Gather what is wrong with a job; return whether anything is."""
        found = trouble_of(job, self._runtime, now)
        if found is None and served[job.queue]:  # nearly always
            return False
        troubles = [] if found is None else [found]
        if not job.is_finished and not served[job.queue]:
            told = f"workers of this build serve {', '.join(served.patterns)}, and not {job.queue!r:.80}"
            troubles.append(Trouble("unserved", job.queue, told))
        for trouble in troubles:
            gathered.add(trouble, job, self._records.record(job) if gathered.lacks(trouble) else None)
        return bool(troubles)

    # Which jobs

    def _pages(self, states: frozenset[State], sample: int | None) -> Iterator[Sequence[StoredJob]]:
        if sample is None:
            yield from self._walk(Query(states=states, limit=_PAGE))
            return
        seen: set[str] = set()
        for name in sorted(self._names(states)):
            for newest_first in (False, True):
                query = Query(states=states, job=name, limit=min(sample, _PAGE), newest_first=newest_first)
                for page in self._walk(query, at_most=sample):
                    new = [job for job in page if job.id not in seen]
                    seen.update(job.id for job in new)
                    yield new

    def _walk(self, query: Query, at_most: int | None = None) -> Iterator[Sequence[StoredJob]]:
        """Yield jobs by id, page by page."""
        left = at_most
        while left is None or left > 0:
            wanted = query.limit if left is None else min(left, query.limit)
            page = self._inspection.list(msgspec.structs.replace(query, limit=wanted))
            yield page
            if len(page) < wanted:
                return
            left = None if left is None else left - wanted
            query = msgspec.structs.replace(query, after=page[-1].id)

    def _names(self, states: frozenset[State]) -> set[str]:
        """Return names that jobs may have: those of this build, of running workers, and of the first and last page."""
        names = {*self._runtime.registry.known, *(name for known in self._known_to_workers() for name in known)}
        for newest_first in (False, True):
            query = Query(states=states, limit=_PAGE, newest_first=newest_first)
            names.update(job.job for job in self._inspection.list(query))
        return names

    # What else there is to know

    def _schedules(self) -> Iterator[DeployProblem]:
        if not self._backend.capabilities.schedules or not isinstance(self._backend, Schedules):
            return
        rows = {row.name: row for row in self._backend.schedules().rows}
        for name, row in rows.items():
            if row.origin == "code" and name not in self._declared:
                yield _notice(
                    "schedule_gone", name, f"the store has the schedule {name!r}, and this build declares none"
                )
        for name in sorted(self._declared.keys() - rows.keys()):
            yield _notice(
                "schedule_new", name, f"this build declares the schedule {name!r}, which is not in the store yet"
            )

    def _unknown_to_workers(self, now: int) -> Iterator[DeployProblem]:
        workers = self._known_to_workers(now)
        for name in self._runtime.registry.known:
            without = sum(name not in known for known in workers)
            if without:
                told = f"{counted(without, 'running worker')} of {len(workers)} cannot run {name!r} yet"
                yield _notice("unknown_to_workers", name, told)

    def _known_to_workers(self, now: int = 0) -> list[frozenset[str]]:
        """Return the names that each living worker knows, of those that say which."""
        found = (
            WorkerDescription.decoded(session.description)
            for session in self._inspection.sessions()
            if session.expires_at > now
        )
        return [frozenset(each.jobs) for each in found if each is not None and each.jobs is not None]


class _Queues(dict[str, bool]):
    """Whether a queue is among these names and patterns; each is compared once."""

    def __init__(self, patterns: Iterable[str]) -> None:
        super().__init__()
        self.patterns = list(patterns)

    def __missing__(self, queue: str) -> bool:
        self[queue] = serves(self.patterns, queue)
        return self[queue]


def trouble_of(job: StoredJob, runtime: Runtime, now: int) -> Trouble | None:
    """Return why a worker would not call the handler of a job; None if it would, or if no build would."""
    ends = job.state in FINISHED  # counters begin again when it is replayed
    wrong = None if ends else impossible(job.delivery + 1, job.attempts, job.crashes, job.interruptions, job.waits)
    if wrong is not None:
        return Trouble("damaged", job.job, wrong)
    try:
        found = resolve(Sealed(job.id, job.queue, job.data), runtime)
    except Exception as error:  # noqa: BLE001  one job's bytes never end the check
        failure = describe(error)
        return Trouble("damaged", job.job, f"{failure.kind}: {failure.message}")
    if found.letter is not None and not ends and (job.spent is not None or _is_expired(found.letter.expires_at, now)):
        return None
    if isinstance(found, Obstacle):
        return Trouble(found.kind, job.job, found.reason, job.queue if found.kind == "refused" else "")
    spent = None if ends else overdrawn(job.attempts, found.terms)
    if spent is not None:
        return Trouble("over_budget", job.job, f"{job.job} has failed {counted(job.attempts, 'time')}: {spent}")
    return _misfit(found, runtime)


def _is_expired(expires_at: int | None, now: int) -> bool:
    return expires_at is not None and expires_at <= now


def _misfit(found: Resolved, runtime: Runtime) -> Trouble | None:
    """Return why the handler cannot be called with a job's arguments."""
    letter = found.letter
    try:
        found.entry.fit(letter.payload)
    except Exception as error:  # noqa: BLE001  a model's own methods may raise anything
        code, place = (error.code, error.parameter) if isinstance(error, DoesNotFit) else ("misfit", "")
        if code == "misfit":
            return Trouble(code, letter.job, message_of(error, scrubber(letter, runtime)), place)
        told = (
            "without `{}`, which this build requires"
            if code == "missing_argument"
            else "with `{}`, which this build does not take"
        )
        return Trouble(
            code, letter.job, f"`{_call(letter.job, letter.payload)}` was enqueued {told.format(place[:80])}", place
        )
    return None


def _call(job: str, payload: msgspec.Raw) -> str:
    """Return a call as people write it, with the names of its arguments and not their values."""
    given = [name[:80] for name in msgspec.json.decode(payload, type=dict[str, Any])]
    return f"{job}({', '.join(given[:_SHOWN])}{', …' if len(given) > _SHOWN else ''})"


def _notice(code: str, subject: str, text: str) -> DeployProblem:
    return DeployProblem(code=code, subject=subject, text=text, fix=FIXES[code], blocks=False)
