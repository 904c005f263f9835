"""Write the page of all options from the code that reads them: each is documented by the text below it.

python -m tools.options_reference check    exit 1 and say so, if the page is out of date
python -m tools.options_reference write    bring it up to date
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from onward.app import Onward
from onward.cli.command import Command
from onward.cli.commands import TREE
from onward.client.schedules import PolicyOptions, ScheduleOptions
from onward.job.context import JobContext
from onward.job.definition import JobOptions, SharedOptions, UsingOptions
from onward.worker.options import WorkerOptions

PAGE = Path("docs/reference/options.md")
CONFIGURATION = Path("docs/reference/configuration.md")

INTRODUCTION = """\
<!-- written by `python -m tools.options_reference write` -->

# All options

What can be said about a job, a call, an application and a worker. An option that does not exist is an error that names
the nearest. Lengths of time are seconds, text such as `"10m"`, or a `timedelta`; instants are aware datetimes.
"""


def main(arguments: Sequence[str] | None = None, root: Path = Path()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.options_reference", description=f"Check or write {PAGE}.")
    parser.add_argument("command", choices=["check", "write"])
    command = parser.parse_args(arguments).command

    page, current = root / PAGE, "\n".join(_page(root))
    if command == "write":
        page.write_text(current, encoding="utf-8")
    elif not page.exists() or page.read_text(encoding="utf-8") != current:
        print(f"{PAGE}: out of date, run `python -m tools.options_reference write`", file=sys.stderr)
        return 1
    return 0


def _page(root: Path) -> Iterator[str]:
    yield INTRODUCTION
    shared, job, using = (documented(kind) for kind in (SharedOptions, JobOptions, UsingOptions))
    yield "## Of a job and of a call\n"
    yield '`@jobs.job(queue="mail", ...)` says them for every call, `job.using(queue="mail", ...).enqueue(...)` for one.\n'
    yield from _table(shared)
    yield "## Of a job only\n"
    yield "`@jobs.job(...)`.\n"
    yield from _table(job)
    yield "## Of a call only\n"
    yield '`job.using(...)`, and `jobs.enqueue("name", {...}, ...)` for a job that only another program knows.\n'
    yield from _table(using)
    yield "## Of a schedule\n"
    yield '`@jobs.schedule("0 9 * * *", ...)` beside `@jobs.job`; `jobs.schedules.create` takes the first four, too.\n'
    yield from _table(documented(PolicyOptions) | documented(ScheduleOptions))
    yield "## What a run knows\n"
    yield "A first parameter annotated `ctx: JobContext` is filled in.\n"
    yield from _table(_context())
    yield "## Of an application\n"
    yield "`Onward(url, ...)`, `onward.toml` and the environment; [configuration](configuration.md) says more.\n"
    yield from _settings(root)
    yield "## Of the worker in a program\n"
    yield "`jobs.worker(...)`.\n"
    given = documented(WorkerOptions)
    parameters = inspect.signature(Onward.worker).parameters.values()
    yield from _table({each.name: given[each.name] for each in parameters if each.name != "self"})
    yield "## Of `onward worker`\n"
    (worker,) = (each for each in TREE if isinstance(each, Command) and each.name == "worker")
    yield from _table({each.usage: each.summary for each in worker.arguments if each.is_option}, "option")


def documented(kind: type) -> dict[str, str]:
    """The fields of a class with the texts below them; a public field without one is an error."""
    (tree,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in zip(tree.body, [*tree.body[1:], ast.Pass()], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else None
            if text is not None:
                found[field.target.id] = " ".join(str(text).split())
            elif kind is not WorkerOptions:
                raise SystemExit(f"{kind.__name__}.{field.target.id} has no text below it that says what it means")
    return found


def _context() -> dict[str, str]:
    """What a handler may ask of its context: its attributes, then what it computes and does."""
    found = {f"ctx.{name}": text for name, text in documented(JobContext).items()}
    for name, member in vars(JobContext).items():
        if isinstance(member, property):
            found[f"ctx.{name}"] = _first(member.__doc__)
    for name, call in (("progress", "progress(fraction, note)"), ("transaction", "transaction()")):
        found[f"ctx.{call}"] = _first(getattr(JobContext, name).__doc__)
    return found


def _first(text: str | None) -> str:
    """The first paragraph of a docstring."""
    paragraph, _, _ = inspect.cleandoc(text or "").partition("\n\n")
    return re.sub(r"``(.+?)``", r"`\1`", " ".join(paragraph.split()))


def _settings(root: Path) -> Iterator[str]:
    """The tables of the page of settings, which a test compares with the code."""
    page = (root / CONFIGURATION).read_text(encoding="utf-8")
    for heading in ("## Settings", "## In Python only"):
        section = page.partition(heading)[2].partition("\n## ")[0]
        yield from (line.replace("](#", "](configuration.md#") for line in section.splitlines() if line.startswith("|"))
        yield ""


def _table(rows: Mapping[str, str], heading: str = "name") -> Iterator[str]:
    yield f"| {heading} | meaning |"
    yield "|---|---|"
    for name, meaning in rows.items():
        yield f"| `{name}` | {meaning.replace('|', chr(92) + '|')} |"
    yield ""


if __name__ == "__main__":
    sys.exit(main())
