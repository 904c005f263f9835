"""The tables of a store, which have the same names in every database."""

from __future__ import annotations

__all__ = ["TABLES", "emptying"]

TABLES = ("jobs", "finished", "attempts", "sessions", "queues", "holds", "notes")


def emptying(prefix: str) -> list[str]:
    """Return the statements that empty all tables."""
    return [f"DELETE FROM {prefix}{table}" for table in TABLES]  # noqa: S608  a prefix is a namespace, and was checked
