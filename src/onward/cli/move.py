"""``onward move``: transfer between stores."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from onward import config
from onward.base.credentials import shown_url
from onward.base.wording import counted
from onward.cli import output, values
from onward.cli.application import refuse_missing
from onward.cli.command import Command, argument
from onward.cli.exits import CommandError, Exit
from onward.errors import InvalidName, InvalidTime, OptionError

if TYPE_CHECKING:
    from onward.operate.transfer import Transfer, TransferReport, TransferStore

__all__ = ["COMMAND"]

_NAMED = 20  # jobs that stayed are named up to this number


def move(args: Namespace) -> int:
    """Move, queue by queue; or say what would be moved."""
    from onward.operate.transfer import Transfer, count_jobs, transferable_queues

    _check(args)
    with ExitStack() as stores:
        source = _open(stores, args, args.source, exists=True)
        queues = args.queue or transferable_queues(source)
        waiting = {queue: count_jobs(source, queue) for queue in dict.fromkeys(queues)}
        if args.dry_run:
            return _preview(args, waiting)
        target = _open(stores, args, args.target, exists=False)
        name = f"from {shown_url(args.source)} to {shown_url(args.target)}"
        moved = _move_all(args, Transfer(source, target, name=name, batch=args.batch), waiting)
        if args.resume and all(report.is_complete for report in moved):
            for report in moved:
                target.pause(report.queue, paused=False)
    return _sum_up(args, moved)


def _check(args: Namespace) -> None:
    if args.app is not None or args.url is not None:
        raise CommandError("name the two stores with --from and --to", Exit.USAGE)
    if args.source is None or args.target is None:
        raise CommandError("name the store to move from with --from, and the one to move to with --to", Exit.USAGE)
    if args.source == args.target:
        raise CommandError("--from and --to name the same store", Exit.USAGE)


def _open(stores: ExitStack, args: Namespace, url: str, *, exists: bool) -> TransferStore:
    from onward.backends.opening import open_store, scheme_of
    from onward.operate.transfer import TransferStore

    given = {"url": url, "store": ""} | ({} if args.namespace is None else {"namespace": args.namespace})
    try:
        if exists:
            refuse_missing(config.explain(given)["url"], "--from")
        settings = config.load(given)
    except (OptionError, InvalidName, InvalidTime) as error:
        raise CommandError(str(error), Exit.CONFIG) from error
    store = stores.enter_context(closing(open_store(settings)))
    store.connect()
    place = scheme_of(url)  # not the rest of it: a URL may carry a password
    if not store.capabilities.shared:
        raise CommandError(f"a {place} store is seen by one process only: there is nothing to move", Exit.CONFIG)
    if not isinstance(store, TransferStore):
        raise CommandError(
            f"a {place} store cannot list its jobs with all that belongs to them: nothing moves from it or to it",
            Exit.CONFIG,
        )
    return store


def _preview(args: Namespace, waiting: dict[str, tuple[int, int]]) -> int:
    for queue, (number, running) in waiting.items():
        if args.json:
            output.json_line({"queue": queue, "jobs": number, "running": running})
        else:
            output.write(f"{queue}: {counted(number, 'job')} would move{_and_running(running)}")
    if not any(number for number, _ in waiting.values()):
        output.say(args, "nothing to move")
        return Exit.NOTHING
    return Exit.OK


def _move_all(args: Namespace, transfer: Transfer, waiting: dict[str, tuple[int, int]]) -> list[TransferReport]:
    moved = []
    with output.progress(args, "moving", sum(number for number, _ in waiting.values())) as advance:
        for queue in waiting:
            output.say(args, f"{queue} is paused at both ends, and stays so until it is resumed")
            report = transfer.move(queue, wait=args.patience, advance=advance)
            _tell(args, report)
            moved.append(report)
    return moved


def _tell(args: Namespace, report: TransferReport) -> None:
    if args.json:
        output.json_line(
            {
                "queue": report.queue,
                "moved": report.moved,
                "there": report.there,
                "running": report.running,
                "stayed": [{"id": job_id, "reason": why} for job_id, why in sorted(report.stayed.items())],
                "before": report.before,
                "after": report.after,
                "complete": report.is_complete,
            }
        )
        return
    there = f", {report.there:,} already there" if report.there else ""
    output.write(f"{report.queue}: {counted(report.moved, 'job')} moved{there}")
    for job_id, why in sorted(report.stayed.items())[:_NAMED]:
        output.write(f"  {job_id} stayed: {why}")
    if len(report.stayed) > _NAMED:
        output.write(f"  and {len(report.stayed) - _NAMED:,} more stayed")


def _sum_up(args: Namespace, moved: Sequence[TransferReport]) -> int:
    for report in moved:
        queue = report.queue
        if report.running:
            output.say(
                args, f"{queue}: {counted(report.running, 'job')} still running at the source: stop the workers there"
            )
        if report.missing:
            output.say(
                args,
                f"{queue}: there were {counted(report.before, 'job')} and there are {report.after:,}: "
                f"look for the process that took the rest",
            )
    if not all(report.is_complete for report in moved):
        output.say(args, "not everything has moved: run the same command again")
        return Exit.FAILURE
    if not any(report.moved or report.there for report in moved):
        output.say(args, "nothing to move")
        return Exit.NOTHING
    names = " ".join(report.queue for report in moved)
    if args.resume:
        output.say(args, f"counted: what was there is there.  Resumed there: {names}")
    else:
        place = shown_url(args.target)
        output.say(args, f"counted: what was there is there.  Let it run: onward queue resume {names} --url {place}")
    return Exit.OK


def _and_running(running: int) -> str:
    return f", and {counted(running, 'job')} running there: stop the workers first" if running else ""


COMMAND = Command(
    "move",
    "move waiting, scheduled, retryable and dead jobs from one store to another",
    move,
    (
        argument("--from", "the store to move from", metavar="URL", dest="source"),
        argument("--to", "the store to move to", metavar="URL", dest="target"),
        argument("--queue", "only this queue; may be given several times", metavar="NAME", action="append"),
        argument(
            "--patience",
            "how long to wait for jobs that still run at the source: 90s, 5m",
            metavar="DURATION",
            type=values.duration,
            default=0.0,
        ),
        argument("--batch", "how many jobs to move at a time", metavar="N", type=values.count, default=500),
        argument("--resume", "resume the queues at the target when everything has moved", action="store_true"),
        argument("--dry-run", "change nothing; say what would be moved", action="store_true"),
    ),
    about="The queues are reserved at both ends meanwhile, and stay paused; the source should get no new jobs. It may be "
    "interrupted at any point and run again. Exit code 1: something stayed, which is named; 6: there was nothing to move.",
)
