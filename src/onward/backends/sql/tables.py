"""The tables that hold what a store knows of its jobs, under the same names in every database."""

from __future__ import annotations

__all__ = ["TABLES", "emptying"]

TABLES = ("jobs", "finished", "attempts", "sessions", "queues", "holds", "notes", "schedules")


def emptying(prefix: str) -> list[str]:
    """The statements that leave nothing in them."""
    return [f"DELETE FROM {prefix}{table}" for table in TABLES]  # noqa: S608  a prefix is a namespace, and was checked
