"""``onward migrate``: bringing the tables of a store up to date, or printing what is missing."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from onward import config
from onward.cli import output
from onward.cli.application import given
from onward.cli.command import Command, argument
from onward.cli.exits import CommandError, Exit
from onward.errors import InvalidName, InvalidTime, OptionError

if TYPE_CHECKING:
    from onward.backend import Migration

__all__ = ["COMMAND"]


def migrate(args: Namespace) -> int:
    """Apply the missing migrations; or print them, or say whether there are any."""
    from onward.backends.opening import tables_of

    if args.app is not None:
        raise CommandError(
            "an application migrates its store when it is opened: name the store instead, with --url or ONWARD_URL",
            Exit.USAGE,
        )
    if args.sql and args.check:
        raise CommandError("give --sql or --check, not both", Exit.USAGE)
    try:
        settings = config.load(given(args))
    except (OptionError, InvalidName, InvalidTime) as error:
        raise CommandError(str(error), Exit.CONFIG) from error
    with closing(tables_of(settings)) as tables:
        if args.sql:
            return _print(args, tables.script())
        if args.check:
            return _tell(args, tables.pending(), applied=False)
        with output.working(args, "migrating"):
            applied = tables.migrate()
        return _tell(args, applied, applied=True)


def _print(args: Namespace, script: str) -> int:
    for line in script.splitlines():
        output.write(line)
    if not script:
        output.say(args, "nothing to do: the tables are up to date")
    return Exit.OK


def _tell(args: Namespace, migrations: Sequence[Migration], *, applied: bool) -> int:
    for each in migrations:
        if args.json:
            output.json_line({"version": each.version, "name": each.name, "applied": applied})
        else:
            output.write(f"{'applied' if applied else 'pending'} {each.name}")
    if not migrations:
        output.say(args, "nothing to do: the tables are up to date")
    return Exit.PENDING if migrations and not applied else Exit.OK


COMMAND = Command(
    "migrate",
    "bring the tables of the store up to date",
    migrate,
    (
        argument("--check", "change nothing; exit code 7 if something is pending", action="store_true"),
        argument("--sql", "change nothing; print what would be run", action="store_true"),
    ),
    about="A program that opens a store does the same, if it may change tables: use this command where it may not.",
)
