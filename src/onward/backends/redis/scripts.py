"""The scripts, one for each verb, read once.

A script begins with the constants of `layout` that it uses; its first line names the parts of ``scripts/lib`` that follow
them.  The server keeps a script under the hash of its text, so a call sends the hash; to a server that does not know it, the
text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from onward.backends.redis import layout

__all__ = ["Script", "load"]

_NEEDS = "-- needs: "
_WORD = re.compile(r"\w+")
_TABLE = re.compile(r"local (\w+) = \{(.*)\}")


class Script(NamedTuple):
    """A script and the name that the server knows it by."""

    text: bytes
    digest: str


@cache
def load(name: str) -> Script:
    r"""Return the script of a verb.

    >>> load("turn").text.count(b"even_if_full()\n\nlocal released")
    1
    """
    folder = files(__package__).joinpath("scripts")
    body = folder.joinpath(f"{name}.lua").read_text(encoding="utf-8")
    first, _, rest = body.partition("\n")
    assert first.startswith(_NEEDS), f"{name}.lua does not say what it needs"
    parts = first.removeprefix(_NEEDS).split(", ")
    library = [folder.joinpath("lib").joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in parts]
    code = "\n".join([*library, rest])
    text = "\n".join([*_used(layout.lua().splitlines(), code), "", code]).encode()
    return Script(text, hashlib.sha1(text, usedforsecurity=False).hexdigest())


def _used(constants: Iterable[str], code: str) -> Iterator[str]:
    """Yield the lines of constants that the code uses, tables with the fields that it names: a call makes them anew."""
    words = frozenset(_WORD.findall(code))
    for line in constants:
        names, _, _ = line.removeprefix("local ").partition(" = ")
        if words.isdisjoint(names.split(", ")):
            continue
        table = _TABLE.fullmatch(line)
        if table is None or re.search(rf"\b{names}\b(?!\.)", code):  # used as a whole
            yield line
        else:
            fields = [field for field in table[2].split(", ") if f"{names}.{field.split(' ')[0]}" in code]
            yield f"local {names} = {{{', '.join(fields)}}}"
