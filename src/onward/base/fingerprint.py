"""Fingerprints: which failures are the same one.

A fingerprint is 12 hex digits of the error's class and the last three functions of its traceback, each with its file below
the root that it was imported from.  It has no line numbers, which move with every edit, and no message, which names ids and
may quote secrets.  The interpreter's files and Onward's own do not count.  Where no function is left, the message counts,
without numbers, ids and quoted parts.  Deaths that no code caused have a word instead.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from types import TracebackType

from onward.base.lazy import hashlib

__all__ = [
    "CRASHED",
    "REFUSED",
    "REJECTED",
    "UNEXPLAINED",
    "UNKNOWN",
    "of_error",
    "of_place",
    "of_text",
    "without_text",
]

# Words in place of digits: why a job is dead that no code of the user's has failed.
CRASHED = "crashed"  # its process died
UNKNOWN = "unknown"  # no worker knows it
REFUSED = "refused"  # its queue does not allow it
REJECTED = "rejected"  # its bytes are no job, or are not signed or encrypted as they should be
UNEXPLAINED = "unexplained"  # no record of a run says why

_DIGITS = 6  # bytes, two digits each
_FRAMES = 3
_FILES = 2_048  # that are remembered
_READ = 256  # characters of a message that count

Place = tuple[str, str]  # a file below its root, and a function


def of_error(error: BaseException, kind: str, message: str) -> str:
    """Return the fingerprint of an exception, whose class and message are given as they are stored.  Never raises."""
    return of_place(error, kind) or of_text(kind, message)


def of_place(error: BaseException, kind: str) -> str:
    """Return the fingerprint of an exception by where it was raised; empty if its message counts.  Never raises.

    The message counts for an exception whose place says nothing: a class with ``told_by_its_message``, such as a time-out,
    which is raised wherever the handler happens to be.
    """
    try:
        places = [] if getattr(type(error), "told_by_its_message", False) is True else _places(error.__traceback__)
    except BaseException:  # noqa: BLE001  an exception's attributes may be code of the user's
        places = []
    return _digest(kind, *(part for place in places for part in place)) if places else ""


def of_text(kind: str, message: str) -> str:
    """Return the fingerprint of a failure that has no place.

    >>> of_text("Discard", "user 17 has no address 'a@b'") == of_text("Discard", "user 42 has no address 'c@d'")
    True
    >>> of_text("Discard", "user 17 has no address") == of_text("Discard", "user 17 has no name")
    False
    """
    return _digest(kind, "", _VARIES.sub("", message[:_READ]))


def without_text(fingerprint: str, kind: str, message: str) -> str:
    """Return the fingerprint of a failure whose message must not be part of it: that of an encrypted job."""
    return of_text(kind, "") if fingerprint == of_text(kind, message) else fingerprint


# An opening quote stands behind no letter, so that an apostrophe is none; one that is not closed goes to the end.
_VARIES = re.compile(
    r"""(?<!\w)'.*?(?:'(?!\w)|$)"""
    r"""|".*?(?:"|$)|`.*?(?:`|$)"""
    r"""|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"""
    r"""|\b0[xX][0-9a-fA-F]+\b|\b[0-9a-fA-F]{8,}\b|\d+""",
    re.DOTALL,
)


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=_DIGITS).hexdigest()


def _places(traceback: TracebackType | None) -> list[Place]:
    """Return the innermost functions that count."""
    places: list[Place] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        file = _files.get(code.co_filename)
        if file is None:
            file = _remembered(code.co_filename)
        if file:
            places.append((file, code.co_qualname))
            if len(places) > _FRAMES:
                del places[0]
        traceback = traceback.tb_next
    return places


def _remembered(file: str) -> str:
    if len(_files) >= _FILES:
        _files.clear()
    below = _files[file] = "" if _does_not_count(file) else _below_its_root(file)
    return below


_files: dict[str, str] = {}  # a file -> the same below its root; "": it does not count


def _does_not_count(file: str) -> bool:
    if file.startswith(("<frozen ", _PACKAGE)):
        return True
    return file.startswith(_LIBRARY) and not any(folder in file for folder in _INSTALLED)


def _below_its_root(file: str) -> str:
    """Return a file without the folder that it was imported from: that changes with every deployment."""
    roots = [f"{root.rstrip(os.sep)}{os.sep}" for root in sys.path if root]
    root = max((root for root in roots if file.startswith(root)), key=len, default=None)
    below = file if root is None else file[len(root) :]
    parts = Path(below).parts
    return "/".join(parts[-2:] if root is None else parts)


_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
# The standard library.  (`sysconfig` names it too, and takes longer to import than all of this package.)
_LIBRARY = f"{Path(os.__file__).parent}{os.sep}"
_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
