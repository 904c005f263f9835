"""Rules for jobs that are over, or not there."""

from __future__ import annotations

import re

from onward.base.durations import spoken
from onward.base.wording import counted
from onward.job.results import NO_RESULT
from onward.job.states import State
from onward.operate.commands import canary, command
from onward.operate.why.acts import by_whom, facts_of, last_act, purge_of
from onward.operate.why.case import Case
from onward.operate.why.reason import Reason, moment

__all__ = ["cancelled", "completed", "discarded", "gone"]

_ID = re.compile(r"[0-9a-f]{32}")
_FIXES = {
    "crashed": "find out what ends the process (`onward job show {id}`), then replay it: `{again}`",
    "is not registered": "import the module that defines it in the workers (--import), or give the job that took its place "
    "its name in aliases=[...], then `{again}`",
    "is not allowed": "name it in queue_handlers of the workers, then `{again}`",
    "key": "give the workers the key (`onward keys`), then `{again}`",
}


def gone(case: Case) -> Reason | None:
    if case.is_there:
        return None
    settings = case.settings
    where = f"namespace {settings.namespace!r}" + (f" of {settings.store}" if settings.store else "")
    born = _born(case.job_id)
    look = "look for it in the other store or namespace (--url, --namespace)"
    if born is None or born > case.now:
        return Reason(
            code="gone",
            text=f"There is no job {case.job_id} in {where}, and no job has such an id.",
            fix=f"compare the id with what was printed when it was enqueued; or {look}",
        )
    age = (case.now - born) / 1_000_000
    kept = {state: length for state, length in settings.retention.items() if length is not None}
    shortest = min(kept.values(), default=None)
    facts: dict[str, object] = {"born": born, "age": age}
    if (purge := purge_of(case.job_id, case.besides.other_acts)) is not None:
        return Reason(
            code="gone",
            text=f"There is no job {case.job_id} in {where}: jobs were purged{by_whom(purge)}, with ids from before to "
            f"after this one.",
            fix=command("audit", "--act", "purge", "--who", purge.who),
            facts=facts | facts_of(purge),
        )
    if shortest is None or age < shortest:
        return Reason(
            code="gone",
            text=f"There is no job {case.job_id} in {where}: its id was made {spoken(age)} ago, and nothing so young is "
            f"removed by retention.  It was never enqueued here, is not committed yet, or a person has removed it.",
            fix=look,
            facts=facts,
        )
    states = ", ".join(f"{state} jobs after {spoken(length)}" for state, length in sorted(kept.items()))
    return Reason(
        code="gone",
        text=f"There is no job {case.job_id} in {where}: its id was made {spoken(age)} ago, and retention removes {states}.",
        fix="raise `retention` to keep finished jobs for longer",
        facts=facts,
    )


def completed(case: Case) -> Reason | None:
    job = case.job
    if not case.is_there or job.state is not State.COMPLETED:
        return None
    when = "" if job.finished_at is None else f" at {moment(job.finished_at)}"
    facts = {"finished_at": job.finished_at, "attempts": job.attempts}
    note = "" if case.record is None or case.record.reason is None else case.record.reason
    if note and not _is_of_a_run(note, case):
        return Reason(code="completed", text=f"It was skipped{when}: {note}.", facts=facts)
    took = ""
    if job.started_at is not None and job.finished_at is not None:
        length = max(0, job.finished_at - job.started_at)
        took = f" after a run of {'less than 1 ms' if length < 1000 else spoken(length / 1_000_000)}"
    left = "; only a tombstone of it is left" if job.tombstone else ""
    without = f", with {NO_RESULT}{note.removeprefix(NO_RESULT)}".removesuffix(".") if note else ""
    return Reason(code="completed", text=f"It completed{when}{took}{without}{left}.", facts=facts)


def _is_of_a_run(note: str, case: Case) -> bool:
    """Return whether the reason of a completed job says why its run has no result, and not why it was skipped.

    A reason that is shown otherwise than it is stored was encrypted, maybe with a key that is not here.  Only what quotes a
    handler is encrypted, so the job ran.
    """
    return note.startswith(NO_RESULT) or note != case.job.reason


def discarded(case: Case) -> Reason | None:
    job = case.job
    if not case.is_there or job.state is not State.DISCARDED:
        return None
    why = (case.record.reason if case.record is not None else job.reason) or "no reason is stored"
    last = case.record.errors[-1] if case.record is not None and case.record.errors else None
    error = f"  Its last error: {_sentence(last.kind, last.message)}" if last else ""
    when = "" if job.finished_at is None else f" at {moment(job.finished_at)}"
    fix = next((fix for word, fix in _FIXES.items() if word in why), "fix what it failed on, then `{again}`")
    if job.tombstone:
        fix = "enqueue it again: only a tombstone of it is left"
    counts = ((job.attempts, "run", "runs"), (job.crashes, "crash", "crashes"))
    tries = " and ".join(counted(*each) for each in counts if each[0]) or "no run"
    return Reason(
        code="discarded",
        text=f"It died{when}, after {tries}: {why}.{error}{_like_it(case)}",
        fix=fix.format(id=job.id, again=_again(case)),
        facts={
            "reason": why,
            "attempts": job.attempts,
            "crashes": job.crashes,
            "finished_at": job.finished_at,
            **_group_facts(case),
        },
    )


def _sentence(kind: str, message: str) -> str:
    """Return an error in one line that ends with a full stop: another sentence may follow."""
    told = f"{kind}: {next(iter(message.splitlines()), '')}".rstrip(": ")
    return told if told.endswith((".", "!", "?")) else f"{told}."


def _again(case: Case) -> str:
    """Return the command that replays a dead job: with its group, one before the others, where the store has groups."""
    group = case.besides.group
    if group is None:
        return f"onward job retry {case.job_id}"
    return canary(group.job, group.fingerprint)


def _like_it(case: Case) -> str:
    group = case.besides.group
    if group is None or group.number < 2 or group.since is None:
        return ""
    more = " or more" if group.or_more else ""
    return f"  It is one of {group.number:,}{more} that died so, since {moment(group.since)}."


def _group_facts(case: Case) -> dict[str, object]:
    group = case.besides.group
    return {} if group is None else {"group": group.fingerprint, "like_it": group.number, "or_more": group.or_more}


def cancelled(case: Case) -> Reason | None:
    job = case.job
    if not case.is_there or job.state is not State.CANCELLED:
        return None
    why = (case.record.reason if case.record is not None else job.reason) or "no reason is stored"
    when = "" if job.finished_at is None else f" at {moment(job.finished_at)}"
    by_itself = why == "expired" or why.startswith("replaced by ")
    entry = None if by_itself else last_act(case.besides.acts, "cancel")
    return Reason(
        code="cancelled",
        text=f"It was cancelled{when}{by_whom(entry, why=False)}: {why}.",
        fix="enqueue it again: its time to live is over" if why == "expired" else f"onward job retry {job.id}",
        facts={"reason": why, "finished_at": job.finished_at, **facts_of(entry)},
    )


def _born(job_id: str) -> int | None:
    """Return when an id was made, which its first digits say."""
    return int(job_id[:12], 16) * 1000 if _ID.fullmatch(job_id) else None
