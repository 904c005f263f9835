"""Names of Celery's modules that are nothing here: reading one tells what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onward.errors import OptionError

__all__ = ["refusing"]


def refusing(module: str, instead: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module."""

    def told(name: str) -> Any:
        if name in instead:
            raise OptionError(f"onward.compat.celery.{module} has no {name!r}: {instead[name]}")
        raise AttributeError(f"module 'onward.compat.celery.{module}' has no attribute {name!r}")

    return told
