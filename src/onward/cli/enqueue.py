"""``onward enqueue``: one job from the words of the command line, or many from the lines of a file."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from onward.base.names import suggestion
from onward.base.wording import counted
from onward.cli import output, values
from onward.cli.application import on_new_store
from onward.cli.command import Command, argument
from onward.cli.exits import CommandError, Exit
from onward.cli.text import json_text
from onward.errors import ArgumentError, PayloadTooLarge

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.backend import Enqueued
    from onward.client.bound_job import JobHandle
    from onward.job.definition import EnqueueOptions

__all__ = ["COMMAND"]

_BATCH = 500
_OPTIONS = (
    "queue",
    "priority",
    "max_retries",
    "delay",
    "at",
    "expires",
    "unique_key",
    "idempotency_key",
)

_QUEUE_NOTE = "note: the job went to the queue 'default': its own queue is known with --app only; --queue names another"


def enqueue(app: Onward, args: Namespace) -> int:
    """Enqueue one job, or many."""
    if args.app is not None:
        _refuse_unknown(app, args)
    if args.timeout is not None and not args.wait:
        raise CommandError("--timeout bounds --wait: give both, or neither", Exit.USAGE)
    options = _options(args)
    if args.many is not None:
        return _enqueue_many(app, args, options)
    handle = app.enqueue(args.name, _payload(args), **options)
    _note_queue(args)
    if not handle.created:
        output.say(args, f"nothing was enqueued: the live job {handle.id} has this unique key")
    if args.wait:
        return _wait(args, handle)
    _tell(args, handle.id, created=handle.created)
    return Exit.OK


def _note_queue(args: Namespace) -> None:
    if args.app is None and args.queue is None:
        output.say(args, _QUEUE_NOTE)


def _wait(args: Namespace, handle: JobHandle[Any]) -> int:
    output.say(args, f"waiting for {handle.id}")
    with output.working(args, "waiting"):
        result = handle.result(timeout=args.timeout)
    if args.json:
        output.json_line({"id": handle.id, "created": handle.created, "result": result})
    else:
        output.write(json_text(result))
    return Exit.OK


def _tell(args: Namespace, job_id: str, *, created: bool) -> None:
    if args.json:
        output.json_line({"id": job_id, "created": created})
    else:
        output.write(job_id)


def _refuse_unknown(app: Onward, args: Namespace) -> None:
    known = app.client.letters.registry
    if known.find(args.name) is None:
        raise CommandError(f"{args.app} has no job {args.name!r}{suggestion(args.name, known)}", Exit.USAGE)


def _options(args: Namespace) -> Any:
    options = {name: value for name in _OPTIONS if (value := getattr(args, name)) is not None}
    return options | ({"meta": dict(args.meta)} if args.meta else {})


def _payload(args: Namespace) -> Any:
    """Return the payload: pairs, or JSON from an option or from stdin."""
    pairs = [each for each in args.pairs if each != "-"]
    ways = [bool(pairs), args.payload is not None, "-" in args.pairs]
    if sum(ways) > 1:
        raise CommandError("give one of key=value pairs, --payload, or - for stdin", Exit.USAGE)
    if args.payload == "-" or "-" in args.pairs:
        return _decoded(sys.stdin.buffer.read(), "stdin")
    if args.payload is not None:
        return _decoded(args.payload.encode(errors="surrogateescape"), "--payload")
    return dict(map(_pair, pairs))


def _pair(text: str) -> tuple[str, Any]:
    try:
        return values.pair(text)
    except ArgumentTypeError as error:
        raise CommandError(str(error), Exit.USAGE) from None


def _decoded(text: bytes, where: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{where} is not JSON: {error}", Exit.USAGE) from None


def _enqueue_many(app: Onward, args: Namespace, options: Any) -> int:
    """Enqueue batch after batch; each is durable before its ids are printed."""
    _refuse_one_for_many(args)
    from onward.job.definition import EnqueueOptions

    checked = EnqueueOptions.check(options)
    enqueued = 0
    try:
        with _lines(args.many) as (lines, total), output.progress(args, "enqueueing", total) as advance:
            for batch in _batches(lines):
                answers = _enqueue_batch(app, args.name, batch, checked)
                enqueued += len(answers)
                advance(len(answers))
                _tell_many(args, answers)
        _note_queue(args)
    finally:  # the batches before an error are in the store, and the person who corrects the file must know that
        output.say(args, f"enqueued {counted(enqueued, 'job')}")
    return Exit.OK if enqueued else Exit.NOTHING


def _refuse_one_for_many(args: Namespace) -> None:
    if args.pairs or args.payload is not None:
        raise CommandError("--many reads its payloads from the file: leave pairs and --payload out", Exit.USAGE)
    if args.wait:
        raise CommandError("--wait waits for one job: leave --many out", Exit.USAGE)
    if args.unique_key is not None or args.idempotency_key is not None:
        raise CommandError("with one key for --many jobs only one of them would run: leave the key out", Exit.USAGE)


def _enqueue_batch(app: Onward, name: str, batch: list[tuple[int, bytes]], options: EnqueueOptions) -> list[Enqueued]:
    client = app.client
    envelopes = []
    for number, line in batch:
        payload = _decoded(line, f"line {number}")
        try:
            envelopes.append(client.letters.seal_by_name(name, payload, options))
        except (ArgumentError, PayloadTooLarge) as error:
            raise CommandError(f"line {number}: {error}", Exit.USAGE) from None
    return client.enqueue(envelopes)


def _tell_many(args: Namespace, answers: list[Enqueued]) -> None:
    if args.json or not output.is_terminal():  # on a terminal thousands of ids would hide the bar
        for answer in answers:
            _tell(args, answer.id, created=answer.created)
        sys.stdout.flush()


@contextmanager
def _lines(name: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """Open the file; yield its lines, and how many there are if that is known."""
    if name == "-":
        yield sys.stdin.buffer, None
        return
    path = Path(name)
    try:
        file = path.open("rb")
    except OSError as error:
        raise CommandError(f"--many {name} cannot be read: {error.strerror}", Exit.USAGE) from None
    with file:
        total = None
        if path.is_file():
            total = sum(1 for _ in file)
            file.seek(0)
        yield file, total


def _batches(lines: BinaryIO) -> Iterator[list[tuple[int, bytes]]]:
    """Yield the lines that are not empty, numbered as in the file."""
    batch: list[tuple[int, bytes]] = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            batch.append((number, line))
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


COMMAND = Command(
    "enqueue",
    "enqueue a job by its name, and print its id",
    on_new_store(enqueue),
    (
        argument("name", "the job's name", metavar="NAME"),
        argument(
            "pairs",
            "an argument of the job; the value may be a JSON number, true, false, null or text in quotes, and is plain "
            "text otherwise.  A single - reads the whole payload from stdin, as JSON",
            metavar="KEY=VALUE",
            nargs="*",
            default=(),  # else argparse calls it required
        ),
        argument("--payload", "all arguments at once, as JSON; - reads them from stdin", metavar="JSON"),
        argument(
            "--many",
            "one job for every line of a file, each line a payload as JSON; - reads stdin.  In batches of 500",
            metavar="FILE",
            files=True,
        ),
        argument("--queue", "the queue; else the job's own, or `default`", metavar="NAME"),
        argument("--delay", "run it after this much time: 90s, 10m, 1h 30m", metavar="TIME", type=values.duration),
        argument("--at", "run it at this time or later: 2030-01-31T12:00Z", metavar="WHEN", type=values.instant),
        argument("--priority", "from -100 to 100, higher runs sooner", metavar="N", type=int),
        argument("--max-retries", "how often it is tried again after a failure", metavar="N", type=int),
        argument("--unique-key", "enqueue nothing if a live job has this key", metavar="KEY"),
        argument("--idempotency-key", "skip the run if a job with this key has succeeded", metavar="KEY"),
        argument(
            "--expires",
            "cancel it unless it has started by then: a length of time, or when",
            metavar="TIME",
            type=values.expiry,
        ),
        argument(
            "--meta",
            "a value to carry along; repeatable",
            metavar="KEY=VALUE",
            action="append",
            type=values.pair,
        ),
        argument("--wait", "wait for its end and print its result, as JSON", action="store_true"),
        argument("--timeout", "wait no longer than this", metavar="TIME", type=values.duration),
    ),
    about="With --app the arguments are checked against the job's signature; without it any name and payload is taken, "
    "and a worker that does not know the job parks it.",
)
