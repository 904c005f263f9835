"""Write the TypeScript types of the dashboard's API from its route table.

python -m tools.web_types check    exit 1 and say so, if the file is out of date
python -m tools.web_types write    bring it up to date
"""

from __future__ import annotations

import argparse
import inspect
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from onward.web.answers import ErrorAnswer
from onward.web.routes import API, ROUTES, Route

FILE = Path("web/src/types.ts")

HEAD = """\
// Written by `python -m tools.web_types write` from src/onward/web/routes.py.  Do not edit.

/** An instant: ISO 8601, in UTC, such as "2030-01-31T12:00:00.25Z". */
export type Instant = string;
"""


def main(arguments: Sequence[str] | None = None, root: Path = Path()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.web_types", description=f"Check or write {FILE}.")
    parser.add_argument("command", choices=["check", "write"])
    command = parser.parse_args(arguments).command

    file, current = root / FILE, text(ROUTES)
    if command == "write":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(current, encoding="utf-8")
    elif not file.exists() or file.read_text(encoding="utf-8") != current:
        print(f"{FILE}: out of date, run `python -m tools.web_types write`", file=sys.stderr)
        return 1
    return 0


def text(routes: Sequence[Route]) -> str:
    """Return the file: an interface for every type, and one that says what each route takes and returns."""
    named: dict[str, type] = {}
    for each in (ErrorAnswer, *(kind for route in routes for kind in (route.query, route.body, route.answer))):
        _collect(msgspec.inspect.type_info(each), named)
    parts = [HEAD, *(_interface(named[name]) for name in sorted(named)), _routes(routes)]
    return "\n".join(parts)


def _collect(info: msgspec.inspect.Type, named: dict[str, type]) -> None:
    if isinstance(info, msgspec.inspect.StructType):
        if info.cls.__name__ in named:
            return
        named[info.cls.__name__] = info.cls
        for field in info.fields:
            _collect(field.type, named)
    for part in _inside(info):
        _collect(part, named)


def _inside(info: msgspec.inspect.Type) -> Iterable[msgspec.inspect.Type]:
    match info:
        case msgspec.inspect.UnionType():
            return info.types
        case msgspec.inspect.ListType():
            return (info.item_type,)
        case msgspec.inspect.TupleType():
            return info.item_types
        case msgspec.inspect.VarTupleType():
            return (info.item_type,)
        case msgspec.inspect.DictType():
            return (info.value_type,)
        case msgspec.inspect.Metadata():
            return (info.type,)
        case _:
            return ()


def _interface(kind: type) -> str:
    comments, info = _comments(kind), msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    is_asked = kind.__module__.endswith(".questions")
    lines = (
        [f"/** {inspect.cleandoc(kind.__doc__)} */"] if kind.__doc__ and not kind.__doc__.startswith("A query") else []
    )
    lines.append(f"export interface {kind.__name__} {{")
    for field in info.fields:
        if (comment := comments.get(field.name)) is not None:
            lines.append(f"  /** {comment} */")
        mark = "?" if is_asked and not field.required else ""
        lines.append(f"  {field.name}{mark}: {_type(field.type)};")
    return "\n".join([*lines, "}", ""])


def _type(info: msgspec.inspect.Type) -> str:  # noqa: C901, PLR0912  one line for each kind of type
    match info:
        case msgspec.inspect.Metadata():
            return _type(info.type)
        case msgspec.inspect.StructType():
            return info.cls.__name__
        case msgspec.inspect.NoneType():
            return "null"
        case msgspec.inspect.BoolType():
            return "boolean"
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return "number"
        case msgspec.inspect.StrType():
            return "string"
        case msgspec.inspect.DateTimeType():
            return "Instant"
        case msgspec.inspect.LiteralType():
            return " | ".join(json.dumps(value) for value in info.values)
        case msgspec.inspect.UnionType():
            return " | ".join(map(_type, info.types))
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
            inner = _type(info.item_type)
            return f"({inner})[]" if "|" in inner else f"{inner}[]"
        case msgspec.inspect.TupleType():
            return f"[{', '.join(map(_type, info.item_types))}]"
        case msgspec.inspect.DictType():
            return f"Record<string, {_type(info.value_type)}>"
        case msgspec.inspect.AnyType():
            return "unknown"
        case _:
            raise TypeError(f"{info} has no form in TypeScript yet: add it to tools/web_types.py")


def _comments(kind: type) -> dict[str, str]:
    """Return what stands behind the fields of a class, by field."""
    source = inspect.getsource(kind)
    found: dict[str, str] = {}
    name = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.line.startswith(f"    {token.string}:"):
            name = token.string
        elif token.type == tokenize.COMMENT and name and token.line.startswith(f"    {name}:"):
            found[name] = (
                re.sub(r"^#\s*", "", token.string).replace("*/", "* /").replace("``", "`").replace("None", "null")
            )
    return found


def _routes(routes: Sequence[Route]) -> str:
    lines = [
        "/** What each route takes and returns.  Paths are relative to the dashboard; braces are filled in, encoded. */",
        "export interface Routes {",
    ]
    for route in routes:
        lines += [f"  /** {line} */" for line in _told(route)]
        lines.append(f"  {json.dumps(f'{route.method} {route.path}')}: {{ {'; '.join(_parts(route))} }};")
    return "\n".join([*lines, "}", "", f"export const API = {json.dumps(API)};", ""])


def _told(route: Route) -> Iterator[str]:
    role = "open to everybody" if route.role is None else f"role {route.role}"
    yield f"{route.summary}  ({role}{'; a stream of lines' if route.streams else ''})"


def _parts(route: Route) -> Iterator[str]:
    parameters = ", ".join(f"{name}: string" for name in route.parameters)
    yield f"parameters: {{ {parameters} }}" if parameters else "parameters: null"
    yield f"query: {_name(route.query)}"
    yield f"body: {'null' if route.body is None else _name(route.body)}"
    yield f"answer: {_name(route.answer)}"
    yield f"streams: {json.dumps(route.streams)}"


def _name(kind: Any) -> str:
    return _type(msgspec.inspect.type_info(kind))


if __name__ == "__main__":
    sys.exit(main())
