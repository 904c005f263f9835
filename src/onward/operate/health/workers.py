"""Checks of worker processes: dead ones, builds and releases side by side, keys that some lack, clocks, samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from math import inf

from onward.backend import Check, SessionState
from onward.base.clock import SECOND
from onward.base.durations import spoken
from onward.base.wording import counted
from onward.contract.description import WorkerDescription
from onward.contract.samples import MINUTE
from onward.operate.commands import end_process
from onward.operate.health.findings import Findings, renewed_at, seconds_since
from onward.operate.health.verdict import Problem, verdict

__all__ = ["builds", "clock", "keys", "samples", "sessions", "versions"]

Worker = tuple[SessionState, WorkerDescription]


def sessions(found: Findings) -> Check:
    """Check that expired sessions are reaped within a lease."""
    problems = []
    for each in found.sessions:
        session = each.session
        silent = found.age(session.expires_at)
        if silent > session.lease_for.total_seconds():
            jobs = f", and {counted(session.leases, 'job of it is', 'jobs of it are')} not given back"
            text = (
                f"the worker on {each.place} was heard of last {spoken(found.age(renewed_at(session)))} ago"
                f"{jobs if session.leases else ''}: no worker sweeps"
            )
            problems.append(Problem("fail" if session.leases else "warn", session.host, text, "onward reap"))
    return verdict("sessions", f"{counted(len(found.alive), 'live worker process', 'live worker processes')}", problems)


def builds(found: Findings) -> Check:
    """Check that one build runs, once a roll-out has had its time."""
    return _one("builds", "build", found, lambda worker: worker[1].build)


def versions(found: Findings) -> Check:
    """Check that one release of Onward runs, and that the one that checks is not older."""
    check = _one("versions", "release of Onward", found, lambda worker: worker[0].version)
    newer = sorted(
        {
            session.version
            for session, _ in found.described
            if _number(session.version) > _number(found.settings.release)
        }
    )
    if check.status != "ok" or not newer:
        return check
    text = f"Onward is {found.settings.release} here, and the workers run {', '.join(newer)}"
    return verdict("versions", "", [Problem("warn", found.host, text, f"pip install onward=={newer[-1]}")])


def keys(found: Findings) -> Check:
    """Check that every live worker knows the key that signs here, and that none has run what it could not verify.

    A worker that reads its keys from a file reads them again when it changes, and has said only what it knew at its start.
    """
    newest = found.settings.signing_key
    unverified = [_ran_unverified(found.unverified)] if found.unverified else []
    if not newest:
        return verdict("keys", "no key signs here, so the keys of workers are not compared", unverified)
    problems = [
        Problem(
            "fail",
            session.host,
            f"the worker on {_place(session)} lacks key {newest}, which signs and encrypts here",
            f"{_restart(session, description)}  # once it has key {newest}",
        )
        for session, description in found.described
        if newest not in description.keys and not description.key_file
    ]
    return verdict("keys", f"every live worker knows key {newest}", [*problems, *unverified])


def _ran_unverified(jobs: int) -> Problem:
    text = f"{counted(jobs, 'job')} ran in the last half-hour whose signature is missing or wrong"
    return Problem("warn", "unverified", text, "give the programs that enqueue them the key; `onward keys` tells how")


def clock(found: Findings) -> Check:
    """Check that this host's clock agrees with the store's, by which jobs are due."""
    apart = max(0.0, (abs(found.here - found.now) - found.asked_for) / SECOND)
    if apart <= found.settings.clocks_apart:
        return verdict("clock", "this host and the store agree on the time", [])
    way = "ahead of" if found.here > found.now else "behind"
    text = f"the clock of {found.host or 'this host'} is {spoken(apart)} {way} the store's"
    return verdict("clock", "", [Problem("warn", found.host, text, "sudo chronyc makestep")])


def samples(found: Findings) -> Check:
    """Check that workers send what they count, of which series and estimates are made, and that they drop no events."""
    dropped = [_dropped(found.events_dropped)] if found.events_dropped else []
    silent = None if found.sampled_at is None else found.age(found.sampled_at + MINUTE)
    overdue = [
        (session, description)
        for session, description in found.described
        if description.samples
        and min(found.age(description.started), inf if silent is None else silent)
        # A sample comes with a renewal, several of them in a lease.
        > max(found.settings.sampled_within, session.lease_for.total_seconds())
    ]
    if not overdue or abs(found.here - found.now) > MINUTE:  # of clocks that differ `clock` tells
        return verdict("samples", "no sample of a worker is missing, and no event was dropped", dropped)
    session, description = overdue[0]
    since = spoken(found.settings.sampled_within if silent is None else silent)
    text = (
        f"no sample has come for {since}, though {counted(len(overdue), 'worker runs', 'workers run')}: series and "
        f"estimates have a gap, and the log of the worker on {_place(session)} says why"
    )
    fix = f"{_restart(session, description)}  # once the store takes samples"
    return verdict("samples", "", [Problem("warn", session.host, text, fix), *dropped])


def _dropped(events: int) -> Problem:
    text = (
        f"{counted(events, 'event was', 'events were')} dropped in the last half-hour: the functions that `jobs.on()` has "
        f"registered take longer than events come"
    )
    fix = "let these functions return at once: they can put what they get on a queue that another thread reads"
    return Problem("warn", "events", text, fix)


def _one(name: str, what: str, found: Findings, of: Callable[[Worker], str]) -> Check:
    """Check that all workers are alike, except for a while."""
    groups: defaultdict[str, list[Worker]] = defaultdict(list)
    for worker in found.described:
        groups[of(worker)].append(worker)
    since = {each: min(_started(worker, found) for worker in workers) for each, workers in groups.items()}
    ordered = sorted(groups, key=lambda each: since[each])
    fine = f"{what} {ordered[-1]}" if ordered else "no worker runs"
    if len(ordered) < 2:
        return verdict(name, fine, [])
    newest = ordered[-1]
    age = seconds_since(since[newest], found.now)
    if age <= found.settings.mixed_for:
        return verdict(name, f"{what} {newest} replaces {', '.join(ordered[:-1])} since {spoken(age)}", [])
    return verdict(name, fine, [_older(what, each, newest, age, groups[each]) for each in ordered[:-1]])


def _older(what: str, old: str, newest: str, age: float, workers: Sequence[Worker]) -> Problem:
    session, description = workers[0]
    places = ", ".join(_place(session) for session, _ in workers[:3]) + (", …" if len(workers) > 3 else "")
    text = f"{what} {old} still runs on {places}, {spoken(age)} after {newest} has started"
    return Problem("warn", session.host, text, _restart(session, description))


def _started(worker: Worker, found: Findings) -> int:
    return min(worker[1].started, found.now)


def _place(session: SessionState) -> str:
    return f"{session.host or 'an unnamed host'} (process {session.pid})"


def _restart(session: SessionState, description: WorkerDescription) -> str:
    """Return the command that lets a worker end in order, so that what started it starts it anew."""
    return end_process(session.host, description.supervisor or session.pid)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isascii() and part.isdecimal())
