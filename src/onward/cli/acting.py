"""Who acts, and why: the options that every command has which changes something, for the audit trail."""

from __future__ import annotations

import getpass
import os
import platform
from argparse import Namespace
from typing import TypedDict

from onward.cli.command import Argument, argument

__all__ = ["ACTING", "Acting", "acting", "who_acts"]

_VARIABLE = "ONWARD_BY"

ACTING: tuple[Argument, ...] = (
    argument("--by", f"who does it, for the audit trail; else {_VARIABLE}, or user@host", metavar="NAME"),
    argument("--reason", "why, for the audit trail", metavar="TEXT", default=""),
)


class Acting(TypedDict):
    """The arguments of every method of the application that changes something."""

    by: str
    reason: str


def acting(args: Namespace) -> Acting:
    """Return who acts and why, from the command line."""
    return {"by": who_acts(args), "reason": args.reason}


def who_acts(args: Namespace) -> str:
    """Return who acts: as the command line says, or the environment; else the user of this process and the host."""
    told: str | None = args.by or os.environ.get(_VARIABLE)
    return told or f"{_user()}@{platform.node() or 'localhost'}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user that this system has no name for, as in containers
        return f"uid-{os.getuid()}"
