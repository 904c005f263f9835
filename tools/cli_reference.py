"""Write the reference of the command line from the tree of commands that the parser itself is made from.

python -m tools.cli_reference check    exit 1 and say so, if the page is out of date
python -m tools.cli_reference write    bring it up to date
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from onward.cli.command import Argument, Command, Group
from onward.cli.commands import GLOBALS, TREE
from onward.cli.exits import MEANINGS

PAGE = Path("docs/reference/cli.md")

INTRODUCTION = """\
<!-- written by `python -m tools.cli_reference write` -->

# Command line

`onward` looks after a store from the shell. `python -m onward` is the same.

```console
$ export ONWARD_URL=sqlite:///jobs.db
$ onward enqueue send_welcome user=42 lang=de --queue mail
$ onward queue list
...
QUEUE         PAUSED  DUE  LATER  RETRY  RUNNING  DONE  DEAD  CANCELLED  OLDEST
mail                    1      0      0        0     0     0          0  ...
(all queues)            1      0      0        0     0     0          0
```

- Data goes to stdout, everything else to stderr: progress, hints, errors. `--quiet` leaves data and errors.
- People get columns and "3 m ago". With `--json` a program gets one JSON object to a line and ISO times.
- On a terminal there are colours, unless `NO_COLOR` is set, and rows are cut to its width. Elsewhere nothing is cut.
- Text that came with a job is shown with its control characters written out: it cannot drive a terminal.
- Where an id is asked for, 8 or more of its first characters do, if no other id begins with them. Jobs that were enqueued
  within the same minute have their first 8 characters in common.
- Only `enqueue`, `queue pause` and `worker` create a store that is not there.
- What the command line says beats everything: with `--app`, or given to `worker`, an application is opened on the store that
  `--url` and `--namespace` name, whatever its code says.
- The store, the namespace and everything else that is not said on the command line comes from the
  [configuration](configuration.md). What an application sets in its Python code is known with `--app` only.
"""


def main(arguments: Sequence[str] | None = None, root: Path = Path()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.cli_reference", description=f"Check or write {PAGE}.")
    parser.add_argument("command", choices=["check", "write"])
    command = parser.parse_args(arguments).command

    page, current = root / PAGE, "\n".join(_page())
    if command == "write":
        page.write_text(current, encoding="utf-8")
    elif not page.exists() or page.read_text(encoding="utf-8") != current:
        print(f"{PAGE}: out of date, run `python -m tools.cli_reference write`", file=sys.stderr)
        return 1
    return 0


def _page() -> Iterator[str]:
    yield INTRODUCTION
    yield "## Options of every command\n"
    yield "They may stand before or after the command.\n"
    yield from _table(("option", "meaning"), [(each.usage, each.summary) for each in GLOBALS])
    yield "## Exit codes\n"
    yield from _table(("code", "meaning"), [(str(int(code)), meaning) for code, meaning in MEANINGS.items()])
    yield "A list that is empty is no failure: its exit code is 0.\n"
    for each in TREE:
        yield from _group(each) if isinstance(each, Group) else _command(each, "onward", "##")


def _group(group: Group) -> Iterator[str]:
    yield f"## onward {group.name}\n"
    yield f"{_sentence(group.summary)}\n"
    for command in group.commands:
        yield from _command(command, f"onward {group.name}", "###")


def _command(command: Command, prefix: str, heading: str) -> Iterator[str]:
    yield f"{heading} {prefix} {command.name}\n"
    yield f"{_sentence(command.summary)}\n"
    yield f"```text\n{prefix} {command.usage}\n```\n"
    if command.about:
        yield f"{command.about}\n"
    if command.arguments:
        yield from _table(("argument", "meaning"), [(_written(each), each.summary) for each in command.arguments])
    for other in command.others:
        yield from _command(other, f"{prefix} {command.name}", f"{heading}#")


def _written(argument: Argument) -> str:
    return argument.usage if argument.is_option else str(argument.words["metavar"])


def _table(headings: tuple[str, str], rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield "|---|---|"
    for code, meaning in rows:
        yield f"| `{code}` | {meaning.replace('|', chr(92) + '|')} |"
    yield ""


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."


if __name__ == "__main__":
    sys.exit(main())
