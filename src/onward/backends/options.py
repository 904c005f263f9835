"""Reading the options after the question mark of a URL, in the same way for every backend."""

from __future__ import annotations

from typing import Literal

from onward.base.names import whole
from onward.errors import BackendMisconfigured

__all__ = ["Durability", "durability", "flag", "number"]

Durability = Literal["full", "relaxed"]


def number(name: str, value: str, least: int, most: int) -> int:
    """Read a number within limits."""
    read = whole(value)
    if read is None or not least <= read <= most:
        raise BackendMisconfigured(f"{name} is {value[:40]!r}: use a number from {least} to {most}")
    return read


def flag(name: str, value: str) -> bool:
    """Read true or false."""
    if value.lower() not in ("true", "false", "1", "0", "yes", "no"):
        raise BackendMisconfigured(f"{name} is {value[:40]!r}: use 'true' or 'false'")
    return value.lower() in ("true", "1", "yes")


def durability(value: str) -> Durability:
    """Read what a commit waits for."""
    if value == "full":
        return "full"
    if value == "relaxed":
        return "relaxed"
    raise BackendMisconfigured(f"durability is {value!r}: use 'full' or 'relaxed'")
