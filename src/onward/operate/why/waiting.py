"""Rules for jobs that wait and are not due, or would not run if they were."""

from __future__ import annotations

from onward.backend import AWAITS_NODE, NEVER
from onward.base.durations import spoken
from onward.base.names import suggestion
from onward.flow.graph import OVER
from onward.job.states import State
from onward.operate.commands import command
from onward.operate.why.case import Case
from onward.operate.why.gates import booked_by
from onward.operate.why.reason import Reason, at, moment

__all__ = [
    "awaits_flow",
    "awaits_signal",
    "expired",
    "held",
    "not_due",
    "sleeping",
    "spent",
    "unknown_job",
    "wrong_version",
]


def expired(case: Case) -> Reason | None:
    expires_at = case.job.expires_at
    if not case.waits or expires_at is None or expires_at > case.now:
        return None
    return Reason(
        code="expired",
        text=f"Its time to live ended at {moment(expires_at)}: it is cancelled as soon as a worker looks at queue "
        f"{case.job.queue}.",
        fix="enqueue it again, with a longer `expires`",
        facts={"expires_at": expires_at},
    )


def spent(case: Case) -> Reason | None:
    if not case.waits or case.job.spent is None:
        return None
    return Reason(
        code="spent",
        text="It has failed for good, and only its dead letter could not be stored: that is tried again until it can.",
        fix="make room for it in the store, or allow drop_on_dlq_failure",
        until=at(case.job.available_at),
        exact=False,
        facts={"attempts": case.job.attempts},
    )


def unknown_job(case: Case) -> Reason | None:
    if not _is_parked(case):
        return None
    described = [description for _, description in case.servers]
    if any(case.known_by(description) for description in described) or case.besides.trouble or _lacks_key(case):
        return None
    names = sorted({name for description in described for name in description.jobs or ()})
    since = case.job.parked_since or case.now
    dies = since + round(case.settings.unknown_grace * 1_000_000)
    meant = suggestion(case.job.job, names) if names else "."
    meant = meant if meant.endswith(("?", ".")) else f"{meant}."
    of = "any worker, and none serves its queue now"
    if described:
        of = "the one worker of its queue" if len(described) == 1 else f"any of {len(described)} workers"
    return Reason(
        code="unknown_job",
        text=f"Job {case.job.job!r} is not registered on {of}{meant}  It is parked since {moment(since)}, and discarded at "
        f"{moment(dies)} if that stays so.",
        fix="import the module that defines it in the workers (--import), or deploy it; if it has another name now, that "
        f"job needs aliases=[{case.job.job!r}]",
        until=at(dies),
        facts={"job": case.job.job, "parked_since": since, "workers": len(described)},
    )


def wrong_version(case: Case) -> Reason | None:
    if case.is_there and case.job.state not in list(State):
        return Reason(
            code="wrong_version",
            text=f"It is {case.job.state!s}, which is no state that this version knows: its record is damaged, or newer.",
            fix="upgrade Onward here; `onward health` names damaged records",
        )
    if not _is_parked(case):
        return None
    lacking = _lacks_key(case)
    if case.besides.trouble:
        text, fix = f"It cannot be opened: {case.besides.trouble}.", "upgrade the workers that serve its queue"
    elif lacking:
        text = f"It is encrypted with key {case.besides.key_id}, which these lack: {', '.join(lacking)}."
        fix = f"add key {case.besides.key_id} to their key file (`onward keys list`)"
    else:
        dies = (case.job.parked_since or case.now) + round(case.settings.unknown_grace * 1_000_000)
        text = (
            "A worker has put it back, because its arguments do not fit the function there, or because it did not know the "
            f"job then.  It is claimed again when it is due, and discarded at {moment(dies)} if it cannot run by then."
        )
        fix = f"onward check-deploy MODULE:ATTRIBUTE  # says what does not fit; then onward job retry {case.job.id}"
    return Reason(
        code="wrong_version",
        text=text,
        fix=fix,
        until=at(case.job.available_at),
        facts={"parked_since": case.job.parked_since, "key": case.besides.key_id},
    )


def held(case: Case) -> Reason | None:
    job, holders = case.job, case.place.holders
    if not case.waits or job.state is not State.SCHEDULED or job.waits == 0 or job.parked_since is not None:
        return None
    facts = {"holders": [holder.job_id for holder in holders], "waits": job.waits}
    if not holders:
        text, fix = (
            "The key that it waited for is free now; it is claimed when it is due.",
            f"onward job retry {job.id}",
        )
    else:
        first = holders[0]
        what = "its single instance" if first.single_instance else f"key {first.key!r}"
        text, fix = f"Job {first.job_id} holds {what}.", f"onward why {first.job_id}"
    return Reason(code="held", text=text, fix=fix, until=at(job.available_at), exact=False, facts=facts)


def awaits_flow(case: Case) -> Reason | None:
    if not case.waits or case.job.awaits != AWAITS_NODE:
        return None
    flow, job = case.besides.flow, case.job
    node = None if flow is None else next((each for each in flow.nodes if each.name == job.node), None)
    if flow is None or node is None:
        return Reason(
            code="awaits_flow",
            text=f"It waits until node {job.node!r} of flow {job.flow} opens.",
            fix=command("flow", "show", str(job.flow)),
            facts={"flow": job.flow, "node": job.node},
        )
    missing = [each.name for each in flow.nodes if each.name in node.after and each.state not in OVER]
    before = f"node {', '.join(map(repr, missing))}" if missing else "the next sweep"
    return Reason(
        code="awaits_flow",
        text=f"It waits for {before} of flow {flow.name!r}: its own node {node.name!r} opens after that ({node.when}).",
        fix=command("flow", "show", flow.id),
        facts={"flow": flow.id, "node": node.name, "waits_for": missing},
    )


def awaits_signal(case: Case) -> Reason | None:
    job = case.job
    if not case.waits or job.awaits is None or job.awaits == AWAITS_NODE or job.available_at <= case.now:
        return None
    ends = "" if job.available_at >= NEVER else f", at the latest until {moment(job.available_at)}"
    return Reason(
        code="awaits_signal",
        text=f"It waits for signal {job.awaits!r}{ends}.",
        fix=f"onward job signal {job.id} {job.awaits} JSON",
        until=None if job.available_at >= NEVER else at(job.available_at),
        exact=False,
        facts={"signal": job.awaits},
    )


def sleeping(case: Case) -> Reason | None:
    job = case.job
    if not case.waits or job.awaits is not None or not case.besides.sleeps or job.available_at <= case.now:
        return None
    return Reason(
        code="sleeping",
        text=f"It sleeps ({case.besides.sleeps[-1]!r}) until {moment(job.available_at)}.",
        fix=f"onward job retry {job.id}",
        until=at(job.available_at),
        facts={"sleep": case.besides.sleeps[-1]},
    )


def not_due(case: Case) -> Reason | None:
    job = case.job
    if not case.waits or case.is_due or job.awaits is not None or booked_by(case) is not None:
        return None
    left = spoken((job.available_at - case.now) / 1_000_000)
    return Reason(
        code="not_due",
        text=f"It is due at {moment(job.available_at)}, in {left}: {_because(case)}.",
        fix=f"onward job retry {job.id}",
        until=at(job.available_at),
        facts={"available_at": job.available_at, "attempts": job.attempts, "crashes": job.crashes},
    )


def _because(case: Case) -> str:
    job, record = case.job, case.record
    last = record.errors[-1] if record is not None and record.errors else None
    if job.state is State.RETRYABLE and last is not None:
        of = "" if record is None or record.max_retries is None else f" of {record.max_retries + 1}"
        if last.kind == "Crash":
            return f"crash {job.crashes} of {job.max_crashes} ({last.message})"
        return f"run {job.attempts}{of} failed with {last.kind}"
    if job.state is State.RETRYABLE:
        return f"run {job.attempts} failed"
    if job.parked_since is not None:
        return "a worker did not know it and put it back"
    return "it snoozed itself" if job.delivery > 0 else "it was enqueued for then"


def _is_parked(case: Case) -> bool:
    return case.waits and case.job.state is State.SCHEDULED and case.job.parked_since is not None


def _lacks_key(case: Case) -> list[str]:
    """Return the workers of its queue that lack the key of an encrypted job."""
    key = case.besides.key_id
    return [each.place for each, described in case.servers if key and key not in described.keys]
