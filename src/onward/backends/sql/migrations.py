"""Migrations, which are numbered SQL files: those of this version, and those that a store lacks."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backend import Migration
from onward.base.package_files import folder_of
from onward.errors import SchemaTooNew

__all__ = ["Migration", "missing", "shipped"]


def shipped(package: str) -> list[Migration]:
    """Return the migrations of this version of Onward, in order."""
    folder = folder_of(package).joinpath("migrations")
    found = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return sorted(
        Migration(int(entry.name[:4]), entry.name.removesuffix(".sql"), entry.read_text(encoding="utf-8"))
        for entry in found
    )


def missing(migrations: Sequence[Migration], found: int) -> list[Migration]:
    """Return the migrations that are newer than the version found.  Raises for a store that is newer than this code."""
    newest = migrations[-1].version
    if found > newest:
        raise SchemaTooNew(found, newest)
    return [migration for migration in migrations if migration.version > found]
