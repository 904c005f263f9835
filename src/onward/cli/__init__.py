"""The command line: one module for each noun.

Called as ``onward`` and ``python -m onward``; `entry` uses `application`, `exits` and `log_lines` too.
Read `running` (parse, run, exit code), `command` (what a command is), `commands` (all of them), `parser`, `application`
(opens the store or the application), then any noun: `jobs`, `dead`, `queues`, `worker`, `top`, `keys`.  All output goes
through `output`.  Modules import what is slow inside functions: `onward --help` must be quick.
"""

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    # A worker process uses three modules of this room and no command.
    from onward.cli.running import run

    return run(arguments)
