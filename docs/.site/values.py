"""Leave out how an attribute gets its value, unless it is a plain one: readers want its type."""

from __future__ import annotations

import ast
from typing import Any

import griffe


class Values(griffe.Extension):
    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        if attr.value is not None and not _is_plain(str(attr.value)):
            attr.value = None


def _is_plain(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return True
