"""Rules for jobs that could run now, if a worker took them."""

from __future__ import annotations

from onward.base.durations import spoken
from onward.base.names import is_pattern, matcher
from onward.base.wording import counted
from onward.contract.description import WorkerDescription
from onward.job.states import State
from onward.operate.commands import command, worker_for
from onward.operate.why.acts import by_whom, facts_of, last_act
from onward.operate.why.case import Case
from onward.operate.why.reason import Reason, at, moment

__all__ = ["behind", "busy", "first_in_line", "not_allowed", "paused", "starved", "suspect", "unserved"]

_AT_ONCE = 5.0  # seconds in which a worker takes the first job of a queue


def paused(case: Case) -> Reason | None:
    queue = case.queues.get(case.job.queue)
    if not case.waits or queue is None or not queue.paused:
        return None
    since = "" if queue.paused_at is None else f" since {moment(queue.paused_at)}"
    entry = last_act(case.besides.other_acts, "pause")
    return Reason(
        code="paused",
        text=f"Queue {queue.name} is paused{since}{by_whom(entry)}.",
        fix=command("queue", "resume", queue.name),
        facts={"queue": queue.name, "paused_at": queue.paused_at, **facts_of(entry)},
    )


def unserved(case: Case) -> Reason | None:
    if not case.waits or case.servers:
        return None
    workers = [each for each in case.alive if each.description is not None]
    served = sorted({name for each in workers if each.description for name in each.description.queues})
    others = "no worker runs"
    if workers:
        others = f"{counted(len(workers), 'worker serves', 'workers serve')} {', '.join(served)}"
    return Reason(
        code="unserved",
        text=f"No worker serves queue {case.job.queue}: {others}.",
        fix=worker_for(case.job.queue),
        facts={"queue": case.job.queue, "workers": len(workers), "served": served},
    )


def not_allowed(case: Case) -> Reason | None:
    if not case.waits or not case.servers:
        return None
    if not all(_refuses(case, description) for _, description in case.servers):
        return None
    return Reason(
        code="not_allowed",
        text=f"Job {case.job.job!r} is not allowed on queue {case.job.queue}: queue_handlers of its "
        f"{counted(len(case.servers), 'worker')} does not name it.  The first that claims it discards it.",
        fix=f"name {case.job.job!r} in queue_handlers for {case.job.queue!r}, or enqueue it on another queue",
        facts={"queue": case.job.queue, "job": case.job.job},
    )


def suspect(case: Case) -> Reason | None:
    if not case.waits or case.job.crashes == 0 or case.place.ahead == 0:
        return None
    return Reason(
        code="suspect",
        text=f"It has crashed {counted(case.job.crashes, 'worker process', 'worker processes')}, so it waits to be first in "
        f"line and then runs alone; {counted(case.place.ahead, 'job comes', 'jobs come')} before it.",
        fix=f"look at its crashes: onward job show {case.job.id}",
        facts={"crashes": case.job.crashes, "ahead": case.place.ahead},
    )


def busy(case: Case) -> Reason | None:
    if not case.waits or not case.servers:
        return None
    slots = sum(description.concurrency for _, description in case.servers)
    taken = sum(min(each.session.leases, description.concurrency) for each, description in case.servers)
    queue = case.queues.get(case.job.queue)
    own = [description.per_process.get(case.job.queue) for _, description in case.servers]
    bound = sum(limit for limit in own if limit is not None) if all(limit is not None for limit in own) else None
    runs = 0 if queue is None else queue.counts[State.EXECUTING]
    if taken < slots and (bound is None or runs < bound):
        return None
    if taken < slots:
        text = f"Its workers run at most {bound} jobs of queue {case.job.queue} at once (per_process), and {runs} run."
    else:
        text = f"{taken} of {slots} slots are taken on {counted(len(case.servers), 'process', 'processes')}."
    oldest = min(case.besides.running, key=lambda job: job.started_at or case.now, default=None)
    if oldest is not None and oldest.started_at is not None:
        text += f"  The oldest run is {oldest.id}, for {spoken(max(0, case.now - oldest.started_at) / 1_000_000)}."
    return Reason(
        code="busy",
        text=text,
        fix=f"start another worker: {worker_for(case.job.queue)}",
        facts={"slots": slots, "taken": taken, "processes": len(case.servers), "runs_of_queue": runs},
    )


def starved(case: Case) -> Reason | None:
    if not case.waits or not case.servers:
        return None
    before = [_first_before(case, description) for _, description in case.servers]
    found = [name for name in before if name is not None]
    if len(found) < len(before):
        return None
    queue = case.queues[found[0]]
    due = counted(queue.counts[State.AVAILABLE], "due job")
    return Reason(
        code="starved",
        text=f"Queue {queue.name} has {due} and comes before {case.job.queue} in every worker.",
        fix=f"give the queues weights (--queues {queue.name}=3,{case.job.queue}=1), or start a worker for it: "
        f"{worker_for(case.job.queue)}",
        facts={"queue": queue.name, "due": queue.counts[State.AVAILABLE]},
    )


def behind(case: Case) -> Reason | None:
    ahead = case.place.ahead
    if not case.waits or ahead == 0:
        return None
    rate = case.besides.ended_per_second
    seconds = None if not rate else ahead / rate
    turn = "" if seconds is None else f"; at {rate:.1f} jobs a second its turn comes in about {spoken(seconds)}"
    return Reason(
        code="behind",
        text=f"{counted(ahead, 'job')} or more come before it{turn}."
        if ahead >= 10_000
        else f"{counted(ahead, 'job comes', 'jobs come')} before it{turn}.",
        until=None if seconds is None else at(case.now + round(seconds * 1_000_000)),
        exact=False,
        facts={"ahead": ahead, "ended_per_second": rate},
    )


def first_in_line(case: Case) -> Reason | None:
    if not case.waits:
        return None
    servers = [each.place for each, _ in case.servers]
    if case.overdue <= _AT_ONCE or not servers:
        return Reason(code="first_in_line", text="It is the first in its line: a worker takes it with its next claim.")
    return Reason(
        code="first_in_line",
        text=f"It is the first in its line, and due for {spoken(case.overdue)}: its workers are out of contact with the "
        f"store, or hang ({'; '.join(servers)}).",
        fix="look at the logs of these workers; `onward health` checks the store",
        facts={"workers": servers, "overdue": case.overdue},
    )


def _refuses(case: Case, description: WorkerDescription) -> bool:
    if description.allowed is None or not case.known_by(description):
        return False
    allowed = description.allowed.get(case.job.queue)
    return case.job.job in description.denied if allowed is None else case.job.job not in allowed


def _first_before(case: Case, description: WorkerDescription) -> str | None:
    """Return a queue with due jobs that a worker serves strictly before the job's own."""
    if not description.strict:
        return None
    for entry in description.queues:
        if _covers(entry, case.job.queue):
            return None
        for queue in case.queues.values():
            if _covers(entry, queue.name) and not queue.paused and queue.counts[State.AVAILABLE] > 0:
                return queue.name
    return None


def _covers(entry: str, queue: str) -> bool:
    return entry == queue or (is_pattern(entry) and matcher(entry)(queue))
