"""PostgreSQL's errors in Onward's words: what may be tried again, what is refused, what has to be changed.

By SQLSTATE, the five characters that the server gives with an error; an error without one comes from the driver, and then
mostly from the connection.
"""

from __future__ import annotations

import re

from onward.backends.postgres.driver import psycopg
from onward.backends.sql.errors import Translated
from onward.backends.unreachable import unreachable_error
from onward.errors import (
    BackendError,
    BackendMisconfigured,
    BackendRefused,
    BackendUnavailable,
    StoreCorrupt,
    StoreFull,
)

__all__ = ["is_pooler", "is_transient", "refuses_settings", "translated", "translation", "unreachable"]

# Rolled back by a conflict, and may be run again at once: serialization failure, deadlock.
_TRANSIENT = ("40001", "40P01")
# A prepared statement is missing, or exists already: a pooler before the server gives out another session each time.
_POOLER = ("26000", "42P05")
_AWAY = ("08", "40", "53", "55", "57", "58", "25")  # connections, rollbacks, resources, locks, operators, the system
_REFUSED = ("22", "23", "44", "54", "P0")  # data, constraints, limits, and what a trigger raises
_MISCONFIGURED = ("0A", "28", "3D", "3F", "42")  # features, authorisation, catalogs, schemas, privileges
# libpq says only in words why it could not connect.
_NEVER = re.compile(
    r"authentication failed|does not exist|no pg_hba\.conf entry|no password supplied|is not permitted|certificate|"
    r"SSL.*(?:not|required)|invalid|unrecognized|unsupported",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
# Values that the driver cannot send: lone surrogates, numbers of more than 64 bits.
_UNBINDABLE = (OverflowError, ValueError)
_OURS_TO_TELL = (psycopg.Error, *_UNBINDABLE)


def translated(place: str) -> Translated:
    """``with translated(place):`` lets no driver's error out."""
    return Translated(place, _OURS_TO_TELL, translation)


def is_transient(error: BaseException) -> bool:
    """Return whether the same transaction may succeed if it is run again."""
    return _code(error) in _TRANSIENT


def is_pooler(error: BaseException) -> bool:
    """Return whether prepared statements cannot be relied upon here."""
    return _code(error) in _POOLER


def translation(error: Exception, place: str) -> BackendError:
    """Return the error to raise instead."""
    code = _code(error)
    if code == "53100":
        return StoreFull(
            f"{place}: no space is left on its disk: make room and try again; nothing of this call was kept"
        )
    if code.startswith("XX0"):
        return StoreCorrupt(f"{place}: {_text(error)}: the server finds its data damaged; restore a backup")
    if code.startswith(_AWAY):
        return BackendUnavailable(f"{place}: {_text(error)} ({code}): whether the call was applied is unknown")
    if code.startswith(_REFUSED) or (not code and isinstance(error, (psycopg.DataError, *_UNBINDABLE))):
        return BackendRefused(f"{place}: these values are refused, nothing of the call was applied: {_text(error)}")
    if code.startswith(_MISCONFIGURED):
        return BackendMisconfigured(f"{place}: {_text(error)} ({code})")
    if isinstance(error, psycopg.OperationalError) and not code:
        return BackendUnavailable(f"{place}: {_text(error)}: whether the call was applied is unknown")
    return BackendError(f"{place}: {_text(error)} ({code or type(error).__name__})")


def refuses_settings(error: psycopg.Error) -> bool:
    """Return whether it was a pooler that answered: it cannot promise that a session keeps its settings."""
    return "unsupported startup parameter" in str(error)


def unreachable(error: psycopg.Error, place: str) -> BackendError:
    """Return the error to raise instead if no connection could be opened."""
    # Hosts, users and databases are quoted, and may have any name.
    refused = _NEVER.search(_QUOTED.sub("", str(error))) is not None
    return unreachable_error(place, _text(error), refused=refused)


def _code(error: BaseException) -> str:
    return getattr(error, "sqlstate", None) or ""


def _text(error: BaseException) -> str:
    """Return the first line: what the server adds about the statement helps no user."""
    return str(error).strip().split("\n", 1)[0]
