"""Show doctests in docstrings as code.  Without this, Markdown takes ``>>>`` for three quotations, one in the other."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"^>>> (?:.+\n?)+", re.MULTILINE)


class Doctests(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _DOCTEST.sub(_as_code, obj.docstring.value)


def _as_code(match: re.Match[str]) -> str:
    return f"```pycon\n{match[0].rstrip()}\n```\n"
