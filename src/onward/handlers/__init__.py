"""Handlers that jobs name by key.  Each is off until the application configures it, and runs only on queues that name it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onward.errors import OptionError
from onward.handlers.shell import Shell
from onward.names import suggestion
from onward.registry import Handler

__all__ = ["Shell", "build"]

_KINDS = {"shell": Shell}


def build(configured: Mapping[str, Mapping[str, Any]]) -> dict[str, Handler]:
    """The handlers an application asked for: ``{"shell": {"allow": ["/usr/bin/rsync"]}}``."""
    handlers: dict[str, Handler] = {}
    for key, options in configured.items():
        if key not in _KINDS:
            raise OptionError(f"there is no handler {key!r}{suggestion(key, _KINDS)}")
        try:
            handlers[key] = _KINDS[key](**options)
        except TypeError as error:
            raise OptionError(f"handler {key!r}: {error}") from None
    return handlers
