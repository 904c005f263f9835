"""Drawing acts on all jobs that match a filter: what would happen, how far it is, and what was done."""

from __future__ import annotations

import signal
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.base.wording import counted
from onward.cli import output, removing
from onward.cli.acting import acting
from onward.cli.command import Argument, argument
from onward.cli.exits import Exit
from onward.cli.table import Column
from onward.cli.text import json_text
from onward.operate.death_watch import last_error

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.client.record import JobRecord
    from onward.operate.acts import Act
    from onward.operate.bulk import Preview

__all__ = ["DRY_RUN", "FILTER", "FILTER_HELP", "Wording", "filter_text", "run", "sample", "shown_payload", "stopping"]

_TOLD = 20


class Wording(NamedTuple):
    """How a command speaks of an act."""

    act: Act
    infinitive: str  # "replay", of what it would do
    past: str  # "replayed", of what was not done
    present: str  # "replaying"
    kind: str = "job"  # "dead job"
    report: str = ""  # of what was done, if that is another word

    @property
    def done(self) -> str:
        return self.report or self.past


def filter_text(args: Namespace, **words: object) -> str:
    """Return the filter that options say: ``--filter``, and one word for each other option that was given."""
    from onward.operate.filters import quoted

    said = [f"{word.replace('_', '-')}:{quoted(str(value))}" for word, value in words.items() if value is not None]
    return " ".join([*([args.filter] if args.filter else []), *said])


def run(app: Onward, args: Namespace, text: str, wording: Wording, **options: Any) -> int:
    """Preview, ask where jobs are removed for good, act batch by batch, and say what was done."""
    purges = wording.act == "purge"
    limit: int | None = getattr(args, "limit", None)
    with output.working(args, "looking"):
        # A person who removes jobs types their number, so that must be exact.
        preview = app.preview(wording.act, text, at_most=None if purges else 10_000, limit=limit)
    if args.dry_run:
        _would(args, preview, wording)
        return Exit.OK if preview.count else Exit.NOTHING
    if purges:
        removing.confirm(args, preview.count, wording.kind.removesuffix("job").strip())
    return _act(app, args, preview, wording, limit=limit, **options, **acting(args))


def _act(app: Onward, args: Namespace, preview: Preview, wording: Wording, **options: Any) -> int:
    done, skipped, stopped = 0, dict[str, str](), False
    with stopping() as stop, output.progress(args, wording.present, preview.count if preview.exact else None) as step:
        batches = app.bulk(wording.act, preview.filter, until=preview.until, **options) if preview.until else iter(())
        for batch in batches:
            done = batch.done
            step(len(batch.ids) + len(batch.skipped))
            if args.json:
                output.json_line({wording.done: done, "skipped": batch.skipped})
            else:
                skipped |= dict(list(batch.skipped.items())[: _TOLD + 1])
            if stop():
                stopped = True
                break
    _report(args, wording, done, skipped, preview)
    if stopped:
        output.fail(f"stopped with Ctrl-C after {counted(done, wording.kind)}; the others are as they were")
        return Exit.INTERRUPTED
    if not done:
        return Exit.NOTHING
    return Exit.FAILURE if skipped else Exit.OK


def _report(args: Namespace, wording: Wording, done: int, skipped: dict[str, str], preview: Preview) -> None:
    if args.json:
        if preview.until is None:
            output.json_line({wording.done: 0, "skipped": {}})
        return
    if done or not skipped:
        output.write(f"{wording.done} {counted(done, wording.kind)}")
    for job_id, reason in list(skipped.items())[:_TOLD]:
        output.fail(f"{job_id} was skipped: {reason}")
    if len(skipped) > _TOLD:
        output.fail("more were skipped: --json names them all")


def _would(args: Namespace, preview: Preview, wording: Wording) -> None:
    """Print what would be changed: how many jobs of which queue, and some of them."""
    largest = sorted(preview.by_queue.items(), key=lambda each: (-each[1], each[0]))
    if args.json:
        output.json_line(
            {
                wording.past: 0,
                f"would_{wording.infinitive}": preview.count,
                "exact": preview.exact,
                "by_queue": [{"queue": queue, "state": state, "jobs": jobs} for (queue, state), jobs in largest],
                "samples": [sample(record) for record in preview.samples],
            }
        )
        return
    removing.tell_by_queue(args, largest)
    if preview.samples:
        output.listing(args, [preview.samples], _SAMPLES, sample)
    more = "" if preview.exact else " or more"
    told = f"{counted(preview.count, wording.kind)}{more}"
    output.write(f"would {wording.infinitive} {told}; nothing was {wording.past}")


def sample(record: JobRecord) -> dict[str, Any]:
    """Return one of many jobs for machines, with its arguments if they may be shown."""
    return {"id": record.id, "job": record.name, "queue": record.queue, "payload": _payload(record)}


def _payload(record: JobRecord) -> Any:
    from onward.operate.finding import shows_arguments

    return record.payload if shows_arguments(record) else None


def shown_payload(record: JobRecord) -> str:
    """Return the arguments of a job for people, if they may be shown."""
    payload = _payload(record)
    return "hidden: --app shows it" if payload is None and record.payload is not None else json_text(payload)


@contextmanager
def stopping() -> Iterator[Any]:
    """Let Ctrl-C stop after the batch: the block asks whether it was pressed.  Pressed again, it ends the command."""
    pressed = False

    def press(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            signal.default_int_handler(number, frame)
        pressed = True

    try:
        before = signal.signal(signal.SIGINT, press)
    except ValueError:  # not the main thread: signals are for that alone
        yield lambda: False
        return
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


_SAMPLES: Sequence[Column[JobRecord]] = (
    Column("FOR EXAMPLE", lambda record: record.id),
    Column("JOB", lambda record: record.name, flexible=True),
    Column("ARGUMENTS", shown_payload, flexible=True),
    Column("LAST ERROR", last_error, style="red", flexible=True),
)

FILTER: Argument = argument(
    "--filter",
    "only those that match, as in 'queue:mail error:Timeout since:2h arg.user_id:42'",
    metavar="FILTER",
)
FILTER_HELP = (
    "A filter has words, which must all hold: state:dead, queue:mail, job:send_*, id:ID,ID, group:3fa9c2d1e0b7, "
    "flow:ID and node:parts, since:2h and until:10m (enqueued), ended-since:2h and ended-until:7d, by:host-7, "
    "error:Timeout, arg.user_id:42; any other text is looked for in all that a job shows. A * stands for any text; "
    "quotes hold text with blanks."
)
DRY_RUN: Argument = argument("--dry-run", "change nothing, and say what would be", action="store_true")
