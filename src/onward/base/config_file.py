"""A configuration file: in which folders to look for it, whether to trust it, and its contents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from onward.base.logs import get_logger
from onward.base.ownership import intruder
from onward.errors import OptionError

__all__ = ["folders_from", "is_trusted", "parse"]

logger = get_logger("onward")

_ignored: set[str] = set()  # a program may open many applications; each file is logged once


def folders_from(start: Path) -> Iterator[Path]:
    """Yield the folder and those above it: not beyond the home folder, nor beyond the file system that it is on."""
    homes = _homes()
    with suppress(OSError):  # a folder that cannot be looked at ends the way up
        device = start.stat().st_dev
        for folder in (start, *start.parents):
            if folder.stat().st_dev != device:
                return
            yield folder
            if folder in homes:
                return


def is_trusted(path: Path) -> bool:
    """Return whether only the user and root can write the file: else another user could choose the store and the keys."""
    try:
        problem = intruder(path) if path.is_file() else None
    except OSError:  # the file was just removed, or this user may not read it
        return False
    if problem is not None and str(path) not in _ignored:
        _ignored.add(str(path))
        logger.warning("%s is ignored as a configuration file: %s", path, problem)
    return problem is None and path.is_file()


def parse(path: Path) -> dict[str, Any]:
    """Read a TOML file; raise an error that names it if it cannot be read."""
    import tomllib  # most processes have no such file

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"{path} cannot be read: {error}") from None


def _homes() -> tuple[Path, ...]:
    """Return the home folder, as it is named and where it really is."""
    try:
        return Path.home(), Path.home().resolve()
    except (OSError, RuntimeError):  # this user has none
        return ()
