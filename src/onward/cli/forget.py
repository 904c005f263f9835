"""``onward forget``: allow work again that an idempotency key prevents."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from onward.cli import output
from onward.cli.acting import ACTING, acting
from onward.cli.application import on_store
from onward.cli.command import Command, argument
from onward.cli.exits import Exit

if TYPE_CHECKING:
    from onward.app import Onward

__all__ = ["COMMAND"]


def forget(app: Onward, args: Namespace) -> int:
    """Free a key under which the work was done."""
    forgotten = app.forget(args.key, job=args.job, **acting(args))
    key = args.key if args.job is None else f"{args.key} of {args.job}"
    if args.json:
        output.json_line({"key": args.key, "job": args.job, "forgotten": forgotten})
    elif forgotten:
        output.write(f"forgot {key}: its work may be done again")
    if not forgotten:
        hint = "; a key that belongs to a job needs --job" if args.job is None else ""
        output.say(args, f"no success is remembered under the key {key}{hint}")
    return Exit.OK if forgotten else Exit.NOTHING


COMMAND = Command(
    "forget",
    "forget an idempotency key, so that its work may be done again",
    on_store(forget),
    (
        argument("key", "the key, as it was given to idempotency_key", metavar="KEY"),
        argument("--job", "the name of the job that it belongs to; without it, a key of all jobs", metavar="NAME"),
        *ACTING,
    ),
    about="For example: `onward forget order:42 --job charge`. A key that a running job holds is not forgotten, and the "
    "exit code is 1: forget it when the job has ended, or cancel the job first. With encrypted jobs it needs the keys.",
)
