"""The command line: one module for each noun.

Called as ``onward`` and ``python -m onward``; `entry` uses `application`, `exits` and `log_lines` too.
Read `main` (parse, run, exit code), `command` (what a command is), `commands` (all of them), `parser`, `application` (opens
the store or the application), then any noun: `jobs`, `dead`, `queues`, `worker`, `top`, `keys`.  All output goes through
`output`.  Modules import what is slow inside functions: `onward --help` must be quick.
"""

from onward.cli.main import main

__all__ = ["main"]
