"""Numbered SQL files: which there are, and which a store still lacks."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from onward.backend import Migration
from onward.errors import SchemaTooNew

__all__ = ["Migration", "missing", "shipped"]


def shipped(package: str) -> list[Migration]:
    """What ships with this Onward, in order."""
    folder = files(package).joinpath("migrations")
    found = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return sorted(
        Migration(int(entry.name[:4]), entry.name.removesuffix(".sql"), entry.read_text(encoding="utf-8"))
        for entry in found
    )


def missing(migrations: Sequence[Migration], found: int) -> list[Migration]:
    """What is newer than the version that was found.  A store that is newer than this code is refused."""
    newest = migrations[-1].version
    if found > newest:
        raise SchemaTooNew(found, newest)
    return [migration for migration in migrations if migration.version > found]
