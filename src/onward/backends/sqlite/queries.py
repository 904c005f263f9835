"""The SQL of `queries.sql` by name."""

from __future__ import annotations

from collections.abc import Mapping

from onward.backends.sql import sections
from onward.backends.sql.sections import prefixed

__all__ = ["load", "prefixed"]


def load(prefix: str) -> Mapping[str, str]:
    """Return every statement by its name, for the tables that start with ``prefix``."""
    return sections.load("onward.backends.sqlite", prefix)
