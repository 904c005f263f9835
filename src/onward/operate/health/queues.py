"""Checks of queues: whether each is served, in time, and not forgotten."""

from __future__ import annotations

from onward.backend import Check, QueueCounts
from onward.base.durations import spoken
from onward.base.wording import counted
from onward.job.states import State
from onward.operate.commands import command, worker_for
from onward.operate.health.findings import Findings
from onward.operate.health.verdict import Problem, verdict
from onward.operate.why.acts import by_whom
from onward.operate.why.reason import moment

__all__ = ["is_forgotten", "late", "paused", "served"]


def served(found: Findings) -> Check:
    """Check that a live worker serves every queue with due jobs."""
    problems = []
    for queue in found.queues:
        if queue.paused or queue.oldest_due is None or found.servers(queue.name):
            continue
        age = found.age(queue.oldest_due)
        text = f"no live worker serves queue {queue.name}, whose oldest job has been due for {spoken(age)}"
        fails = age >= found.settings.unserved_for
        problems.append(Problem("fail" if fails else "warn", queue.name, text, worker_for(queue.name)))
    return verdict("served", "every queue with due jobs is served", problems)


def late(found: Findings) -> Check:
    """Check that no queue has a job that has been due for longer than ``late_after``."""
    problems = []
    for queue in found.queues:
        if queue.paused or queue.oldest_due is None:
            continue
        age, most = found.age(queue.oldest_due), found.settings.late_in(queue.name)
        if age > most:
            cause, fix = _cause(found, queue)
            text = f"queue {queue.name}: its oldest job has been due for {spoken(age)} (late after {spoken(most)}): {cause}"
            problems.append(Problem("fail", queue.name, text, fix))
    return verdict("late", "no job has been due for too long", problems)


def paused(found: Findings) -> Check:
    """Check that no queue has been paused for longer than a day."""
    problems = []
    for queue in found.queues:
        if queue.paused_at is not None and is_forgotten(found, queue):
            text = (
                f"queue {queue.name} has been paused for {spoken(found.age(queue.paused_at))}, since "
                f"{moment(queue.paused_at)}{by_whom(found.pauses.get(queue.name))}"
            )
            problems.append(Problem("warn", queue.name, text, command("queue", "resume", queue.name)))
    return verdict("paused", f"no queue was paused more than {spoken(found.settings.paused_for)} ago", problems)


def is_forgotten(found: Findings, queue: QueueCounts) -> bool:
    """Return whether a queue has been paused for so long that its pause may be forgotten."""
    return queue.paused and queue.paused_at is not None and found.age(queue.paused_at) > found.settings.paused_for


def _cause(found: Findings, queue: QueueCounts) -> tuple[str, str]:
    """Return why a queue is late, and what to type."""
    servers = found.servers(queue.name)
    if not servers:
        return "no live worker serves it", worker_for(queue.name)
    reasons = (found.explained.get(job.id) for job in found.waiting if job.queue == queue.name)
    reason = next((each for each in reasons if each is not None and each.code not in _ORDINARY), None)
    if reason is not None and reason.fix:
        return reason.text, reason.fix
    slots = sum(description.concurrency for _, description in servers)
    taken = sum(min(session.leases, description.concurrency) for session, description in servers)
    due = counted(queue.counts[State.AVAILABLE], "job")
    return (
        f"{taken} of {slots} slots are taken on {counted(len(servers), 'process', 'processes')}, and {due} wait",
        worker_for(queue.name),
    )


_ORDINARY = frozenset({"behind", "busy", "first_in_line", "running", "gone"})  # more workers help
