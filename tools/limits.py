"""Keep the house in order: sizes, names, cycles, and what lies at the root of `src/onward`.

    python -m tools.limits check    exit 1 and name every offender

| rule | limit |
|---|---|
| module | at most 400 lines |
| function | at most 50 lines, docstring and nested functions included |
| constructor | at most 8 parameters of an `__init__`, without `self`: more is a missing object |
| class | no two public classes of one name: one word, one thing (the same file of several stores is one place) |
| cycle | no module imports itself through others, imports inside functions and for type checkers included |
| root | `src/onward` holds the doors and rooms below, and nothing else |

The fields of a value (a `msgspec.Struct`, a dataclass, a `NamedTuple`) are columns and not parameters: they are not counted.
An exception stands in `EXCEPTIONS` with its reason.  One that is not needed any more is a complaint: the table only shrinks.
Which room may import which is import-linter's, in `pyproject.toml`.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

SOURCE = Path("src/onward")
MAX_MODULE, MAX_FUNCTION, MAX_CONSTRUCTOR = 400, 50, 8

DOORS = frozenset({
    "__init__.py", "__main__.py", "py.typed", "version.py",
    "app.py", "backend.py", "config.py", "errors.py",
})  # fmt: skip
ROOMS = frozenset({
    "base", "job", "flow", "security", "contract", "client", "attempt", "backends", "handlers", "transactions", "operate",
    "telemetry", "worker", "supervisor", "wiring", "entry", "cli", "demo", "web", "integrations", "compat", "testing",
})  # fmt: skip
SHARED = frozenset({"sql", "broker", "companion"})  # in backends: what several stores share is no store

EXCEPTIONS: Mapping[str, str] = {
    "class Job": "Django names permissions and addresses after the class of a model: onward.view_job",
    "constructor handlers/url.py Url.__init__": "what an operator allows: keyword-only settings, all but one with a default",
    "constructor job/context.py JobContext.__init__": "the fields that handlers read, keyword-only",
}


class Module(NamedTuple):
    """A file of the package, read and never imported."""

    path: str  # below the package: "worker/pump.py"
    name: str  # as it is imported: "onward.worker.pump"
    lines: int
    tree: ast.Module


class Offence(NamedTuple):
    """A rule that something breaks.  ``subject`` is what an exception names."""

    subject: str
    text: str


def main(arguments: Sequence[str] | None = None, root: Path = Path()) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.limits", description="Check sizes, names, cycles and the root."
    )
    parser.add_argument("command", choices=["check"])
    parser.parse_args(arguments)

    complaints = find_complaints(root / SOURCE, EXCEPTIONS)
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


def find_complaints(package: Path, exceptions: Mapping[str, str]) -> list[str]:
    """Offences without an exception, and exceptions without an offence."""
    modules = list(read(package))
    offences = [
        *long_modules(modules),
        *long_functions(modules),
        *wide_constructors(modules),
        *shared_names(modules),
        *cycles(modules),
        *strangers(package),
    ]
    needed = {each.subject for each in offences}
    return [
        *(each.text for each in offences if each.subject not in exceptions),
        *(
            f"tools/limits.py: the exception {subject!r} is not needed any more"
            for subject in exceptions
            if subject not in needed
        ),
        *(
            f"tools/limits.py: the exception {subject!r} has no reason"
            for subject, reason in exceptions.items()
            if not reason
        ),
    ]


def read(package: Path) -> Iterator[Module]:
    for path in sorted(package.rglob("*.py")):
        below = path.relative_to(package)
        parts = [package.name, *below.with_suffix("").parts]
        text = path.read_text(encoding="utf-8")
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield Module(below.as_posix(), name, len(text.splitlines()), ast.parse(text))


# The rules


def long_modules(modules: Iterable[Module]) -> Iterator[Offence]:
    for module in modules:
        if module.lines > MAX_MODULE:
            yield Offence(f"module {module.path}", f"{module.path}: {module.lines} lines, more than {MAX_MODULE}")


def long_functions(modules: Iterable[Module]) -> Iterator[Offence]:
    for module, name, function in _functions(modules):
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if lines > MAX_FUNCTION:
            text = f"{module.path}:{function.lineno}: {name} has {lines} lines, more than {MAX_FUNCTION}"
            yield Offence(f"function {module.path} {name}", text)


def wide_constructors(modules: Iterable[Module]) -> Iterator[Offence]:
    for module, name, function in _functions(modules):
        given = function.args
        parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        count = len(parameters) - 1 + (given.vararg is not None) + (given.kwarg is not None)
        if function.name == "__init__" and count > MAX_CONSTRUCTOR:
            text = f"{module.path}:{function.lineno}: {name} takes {count} parameters, more than {MAX_CONSTRUCTOR}"
            yield Offence(f"constructor {module.path} {name}", text)


def shared_names(modules: Iterable[Module]) -> Iterator[Offence]:
    for name, homes in public_classes(modules).items():
        if len(homes) > 1:
            yield Offence(f"class {name}", f"several public classes are called {name}: {', '.join(homes)}")


def public_classes(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Every class without an underscore that stands at the top of a module, with the places that define it.

    Stores have the same file for the same thing, ``backends/*/url.py``: what has one name there has one meaning.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for statement in _top_level(module.tree.body):
            if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
                found[statement.name].append(_place(module.path))
    return {name: sorted(set(homes)) for name, homes in sorted(found.items())}


def _place(path: str) -> str:
    parts = path.split("/")
    of_a_store = len(parts) == 3 and parts[0] == "backends" and parts[1] not in SHARED
    return f"backends/*/{parts[2]}" if of_a_store else path


def cycles(modules: Iterable[Module]) -> Iterator[Offence]:
    for ring in _rings(imports(modules)):
        yield Offence(f"cycle {' '.join(ring)}", f"these modules import each other: {', '.join(ring)}")


def imports(modules: Iterable[Module]) -> dict[str, set[str]]:
    """Which module names which, itself left out."""
    trees = {module.name: module.tree for module in modules}
    graph: dict[str, set[str]] = {}
    for name, tree in trees.items():
        named: set[str] = set()
        for statement in ast.walk(tree):
            if isinstance(statement, ast.Import):
                named.update(alias.name for alias in statement.names)
            elif isinstance(statement, ast.ImportFrom) and statement.module is not None:
                for alias in statement.names:
                    below = f"{statement.module}.{alias.name}"
                    named.add(below if below in trees else statement.module)
        graph[name] = (named & trees.keys()) - {name}
    return graph


def strangers(package: Path) -> Iterator[Offence]:
    for path in sorted(package.iterdir()):
        allowed = ROOMS if path.is_dir() else DOORS
        if path.name not in allowed and path.name != "__pycache__":
            yield Offence(f"root {path.name}", f"{path.name}: neither a door nor a room; put it into a room")


# Reading trees


def _functions(
    modules: Iterable[Module],
) -> Iterator[tuple[Module, str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function with its full name, methods and nested functions included."""

    def inside(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + child.name, child
                yield from inside(child, f"{prefix}{child.name}.")
            else:
                yield from inside(child, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix)

    for module in modules:
        for name, function in inside(module.tree, ""):
            yield module, name, function


def _top_level(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those under an `if` or a `try` included."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try):
            yield from _top_level([*statement.body, *statement.orelse])
        if isinstance(statement, ast.Try):
            for handler in statement.handlers:
                yield from _top_level(handler.body)


def _rings(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of modules that reach each other."""
    reached = {name: _reachable(graph, name) for name in graph}
    rings = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in graph
        if name in reached[name]
    }
    return [list(ring) for ring in sorted(rings)]


def _reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    open_ends = [start]
    while open_ends:
        for following in graph[open_ends.pop()] - found:
            found.add(following)
            open_ends.append(following)
    return found


if __name__ == "__main__":
    sys.exit(main())
