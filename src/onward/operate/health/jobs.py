"""Checks of single jobs: those that no worker knows, that crash workers, that do not end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from onward.backend import Check, StoredJob
from onward.base.durations import spoken
from onward.base.wording import counted
from onward.job.states import State
from onward.operate.commands import canary, worker_for
from onward.operate.health.findings import Findings
from onward.operate.health.verdict import Problem, verdict

__all__ = ["crashing", "dying", "known", "stuck"]

_TWICE = 2  # crashes: one may be the machine's
_TENFOLD = 10


def known(found: Findings) -> Check:
    """Check that no job is parked, because no worker that claimed it could run it."""
    parked: defaultdict[str, list[StoredJob]] = defaultdict(list)
    for job in found.waiting:
        if job.parked_since is not None and job.state is State.SCHEDULED:
            parked[job.job].append(job)
    problems = [_parked(found, name, jobs) for name, jobs in sorted(parked.items())]
    return verdict("known", "no job is parked", problems)


def _parked(found: Findings, name: str, jobs: Sequence[StoredJob]) -> Problem:
    first = min(jobs, key=lambda job: (job.id not in found.explained, job.parked_since or 0))
    knowing = [
        session
        for job in jobs
        for session, description in found.servers(job.queue)
        if description.jobs is None or name in description.jobs
    ]
    told = counted(len(jobs), f"job {name!r} is", f"jobs {name!r} are") + " parked"
    reason = found.explained.get(first.id)
    if reason is not None and reason.code == "unknown_job":
        fix = f"{worker_for(first.queue)}  # of a build that defines {name}"
        return Problem("fail", name, f"{told}: {reason.text}", fix)
    if reason is not None and reason.code == "wrong_version" and not knowing:
        return Problem("fail", name, f"{told}: {reason.text}", reason.fix)
    return Problem("warn", name, f"{told}; a worker takes them when they are due", f"onward job retry {first.id}")


def crashing(found: Findings) -> Check:
    """Check that no job waits that has ended worker processes."""
    problems = []
    for job in sorted(found.waiting, key=lambda job: -job.crashes):
        if job.crashes == 0 or job.state is State.EXECUTING or job.is_finished:
            continue
        cause = next((run.failure.message for run in reversed(job.runs) if run.move == "crashed"), "")
        text = (
            f"job {job.job!r} on queue {job.queue} has ended {counted(job.crashes, 'worker process', 'worker processes')}"
            f"{f' ({cause})' if cause else ''} and waits to run alone: {job.id}"
        )
        fix = f"onward job cancel {job.id}"
        problems.append(Problem("fail" if job.crashes >= _TWICE else "warn", job.job, text, fix))
    return verdict("crashing", "no job that has ended a worker process waits", problems)


def dying(found: Findings) -> Check:
    """Check that no group of deaths is new, or has grown tenfold, within the hour."""
    problems = []
    within = spoken(found.settings.died_within)
    for each in found.dying:
        group = each.group
        is_new = found.age(group.first.at) <= found.settings.died_within and each.lately == each.looked_at
        has_grown = group.count >= _TENFOLD and each.lately * 10 >= each.looked_at * 9
        if not is_new and not has_grown:
            continue
        of = f" of {each.kind}" if each.kind else ""
        since = f", first in build {each.build}" if each.build else ""
        text = f"{counted(group.count, f'job {group.job!r} has', f'jobs {group.job!r} have')} died{of}"
        text += f" within {within}{since}" if is_new else f", at least nine of ten within {within}{since}"
        fix = f"{canary(group.job, group.fingerprint)}  # once the cause is fixed"
        problems.append(Problem("fail" if has_grown else "warn", f"{group.job} {group.fingerprint}", text, fix))
    return verdict("dying", f"no group of deaths is new or has grown tenfold within {within}", problems)


def stuck(found: Findings) -> Check:
    """Check that no job runs far longer than it used to, past its time-out, or for an hour without one."""
    problems = []
    for job in sorted(found.running, key=lambda job: job.started_at or found.now):
        if job.started_at is None:
            continue
        age, timeout = found.age(job.started_at), found.timeouts.get(job.id)
        usual = found.p99.get(job.job)
        if usual is not None and age > max(found.settings.stuck_after, 10 * usual):
            why = f"where 99 of 100 runs took {spoken(usual)} at most"
        elif timeout is None and age > found.settings.ran_for:
            why = "without a time-out"
        elif timeout is not None and age > timeout + found.settings.overran_for:
            why = f"its time-out of {spoken(timeout)} has not ended it"
        else:
            continue
        text = (
            f"job {job.job!r} has been running for {spoken(age)}, {why} (`onward job stack {job.id}` shows where it is)"
        )
        problems.append(Problem("warn", job.job, text, f"onward job cancel {job.id}"))
    return verdict("stuck", "no job runs for too long", problems)
