"""Acts on many jobs: a preview with a ticket, then the act, line by line; and the canary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from onward.base.clock import from_micros
from onward.base.wording import counted
from onward.operate.acts import Act
from onward.operate.bulk import BulkProgress, Preview
from onward.operate.canary import CanaryStep
from onward.web.act_answers import BulkLine, CanaryLine, PreviewAnswer, QueueStateCount
from onward.web.answers import NameCount
from onward.web.asking import WebCall
from onward.web.failures import Refused
from onward.web.rendering import as_lines
from onward.web.request import Response
from onward.web.views import job_row, reason_view

__all__ = ["canary", "preview", "run"]

_PAST = {"retry": "retried", "cancel": "cancelled", "replay": "replayed", "purge": "removed"}
_SAMPLES = 5


def preview(asked: WebCall) -> PreviewAnswer:
    act: Act = asked.body.act
    _check_role(asked, act)
    seen = asked.jobs.preview(act, asked.body.filter, samples=_SAMPLES, queues=asked.user.queues)
    ticket, expires = None, None
    if seen.until is not None:
        ticket, expires = asked.parts.tickets.sign(asked.who, act, seen.filter, seen.until, seen.count)
    return PreviewAnswer(
        act=act,
        filter=seen.filter,
        count=seen.count,
        exact=seen.exact,
        by_queue=[
            QueueStateCount(queue=queue, state=str(state), count=count)
            for (queue, state), count in sorted(seen.by_queue.items())
        ],
        samples=[job_row(record) for record in seen.samples],
        text=_told(seen),
        ticket=ticket,
        expires_at=None if expires is None else from_micros(expires * 1_000_000),
        destructive=act in ("purge", "cancel"),
    )


def run(asked: WebCall) -> Response:
    """Do what a ticket says, and nothing else."""
    ticket = asked.parts.tickets.read(asked.body.ticket, asked.who)
    _check_role(asked, ticket.act)
    batches = asked.jobs.bulk(
        ticket.act,
        ticket.filter,
        until=ticket.until,
        fresh=asked.body.fresh and ticket.act == "replay",
        queues=asked.user.queues,
        by=asked.who,
        reason=asked.body.reason,
    )
    return as_lines(_bulk_lines(asked, ticket.act, batches), _broken_bulk)


def canary(asked: WebCall) -> Response:
    body = asked.body
    steps = asked.jobs.dead_letters.canary(
        body.filter,
        steps=body.steps,
        patience=body.patience,
        rate=body.rate,
        queues=asked.user.queues,
        by=asked.who,
        reason=body.reason,
    )
    return as_lines(_canary_lines(asked, steps), _broken_canary)


def _check_role(asked: WebCall, act: Act) -> None:
    if act == "purge" and not asked.user.may("admin"):
        raise Refused(403, "forbidden", "to remove jobs needs the role of an admin")


def _told(seen: Preview) -> str:
    more = "" if seen.exact else " or more"
    return f"{seen.act.capitalize()} {seen.count:,}{more} {'job' if seen.count == 1 else 'jobs'}."


def _bulk_lines(asked: WebCall, act: Act, batches: Iterator[BulkProgress]) -> Iterator[BulkLine]:
    done = looked = skipped = 0
    for batch in batches:
        asked.changed()
        done, looked, skipped = batch.done, batch.looked, skipped + len(batch.skipped)
        reasons = [NameCount(name=name, count=count) for name, count in Counter(batch.skipped.values()).most_common(5)]
        yield BulkLine(
            done=done, looked=looked, skipped=skipped, reasons=reasons, text=f"{counted(done, 'job')} {_PAST[act]}"
        )
    left = f"; {counted(skipped, 'job')} left alone" if skipped else ""
    yield BulkLine(
        done=done,
        looked=looked,
        skipped=skipped,
        reasons=[],
        text=f"{counted(done, 'job')} {_PAST[act]}{left}",
        over=True,
    )


def _broken_bulk(message: str) -> BulkLine:
    return BulkLine(done=0, looked=0, skipped=0, reasons=[], text=f"stopped: {message}", over=True, error=message)


def _canary_lines(asked: WebCall, steps: Iterator[CanaryStep]) -> Iterator[CanaryLine]:
    for step in steps:
        asked.changed()
        yield CanaryLine(
            happened=step.happened,
            step=step.step,
            replayed=step.replayed,
            ended=step.ended,
            text=step.text,
            job_id=step.job_id,
            why=None if step.why is None else reason_view(step.why),
            skipped=len(step.skipped),
            over=step.stopped or step.happened == "finished",
            stopped=step.stopped,
        )


def _broken_canary(message: str) -> CanaryLine:
    return CanaryLine(happened="error", step=0, replayed=0, ended=0, text=message, over=True, stopped=True)
