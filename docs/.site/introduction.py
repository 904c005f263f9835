"""Leave out the docstring of the package: it is a guide to the files; the page has words for users."""

from __future__ import annotations

from typing import Any

import griffe


class Introduction(griffe.Extension):
    def on_module(self, *, mod: griffe.Module, **_: Any) -> None:
        if mod.path == "onward":
            mod.docstring = None
