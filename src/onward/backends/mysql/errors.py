"""MySQL's and MariaDB's errors in Onward's words: what may be tried again, what is refused, what has to be changed.

By the number that the server gives with an error; those of 2000 to 2999 are the driver's, and mean the connection.
"""

from __future__ import annotations

from onward.backends.mysql.driver import pymysql
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

__all__ = [
    "DRIVERS",
    "code",
    "is_denied",
    "is_duplicate",
    "is_from_server",
    "is_late",
    "is_transient",
    "translated",
    "translation",
    "unreachable",
]

# The driver raises its own errors, the socket's, and those of a stream that breaks off in the middle of a number.
DRIVERS = (pymysql.err.MySQLError, OSError, EOFError)

_DUPLICATE = 1062
_LATE = 1205
_DENIED = {1044, 1142, 1143, 1227, 1370}
# Rolled back by a conflict, and may be run again at once: deadlock, a lock not given back in time (the server rolls back the
# statement alone, so Onward rolls back the rest), a row that changed under a snapshot.
_TRANSIENT = {1213, 1205, 1020}
_FULL = {1021, 1114, 1041, 1037}
_CORRUPT = {126, 127, 145, 1034, 1035, 1194, 1195, 1712, 1877}
_REFUSED = {
    *(1048, 1062, 1118, 1153, 1162, 1264, 1265, 1292, 1300, 1364, 1366, 1406, 1411, 1441, 1451, 1452, 1526, 1644, 1690),
    *(3140, 3141, 3156, 3819, 3854, 3903, 4025, 4037, 4038),  # JSON, CHECK constraints
}
_MISCONFIGURED = {
    *(1044, 1045, 1046, 1049, 1054, 1064, 1130, 1142, 1143, 1146, 1193, 1227, 1235, 1251, 1275, 1286, 1305, 1370, 1524),
    *(1553, 1665, 1698, 1820, 1862, 3118, 3159, 4151),
}
_READ_ONLY = {1036, 1290, 1792, 1836}
_AWAY = {
    *(1040, 1042, 1043, 1047, 1053, 1077, 1078, 1079, 1080, 1152, 1153, 1154, 1155, 1156, 1157, 1158, 1159, 1160, 1161),
    *(1184, 1203, 1226, 1317, 1836, 1927, 1969, 3024, 3032, 3058, 3168, 3169, 4031),
}
# Values that the driver cannot send: lone surrogates.
_UNBINDABLE = (OverflowError, ValueError)
_OURS_TO_TELL = (*DRIVERS, *_UNBINDABLE)


def translated(place: str) -> Translated:
    """``with translated(place):`` lets no driver's error out."""
    return Translated(place, _OURS_TO_TELL, translation)


def is_transient(error: BaseException) -> bool:
    """Return whether the same transaction may succeed if it is run again."""
    return code(error) in _TRANSIENT


def is_duplicate(error: BaseException) -> bool:
    """Return whether an id or a key is taken."""
    return code(error) == _DUPLICATE


def is_late(error: BaseException) -> bool:
    """Return whether a lock was not given back in time."""
    return code(error) == _LATE


def is_denied(error: BaseException) -> bool:
    """Return whether this user may not do that."""
    return code(error) in _DENIED


def is_from_server(error: BaseException) -> bool:
    """Return whether it is a complete answer of the server: then the connection can be used again."""
    return isinstance(error, pymysql.err.MySQLError) and (1000 <= code(error) < 2000 or code(error) >= 3000)


def translation(error: Exception, place: str) -> BackendError:
    """Return the error to raise instead."""
    number, text = code(error), _text(error)
    if number in _FULL or "errcode: 28" in text.lower() or "errno: 28" in text.lower():
        return StoreFull(f"{place}: {text} ({number}): make room and try again; nothing of this call was kept")
    if number in _CORRUPT:
        return StoreCorrupt(f"{place}: {text} ({number}): the server finds its data damaged; restore a backup")
    if number in _REFUSED or isinstance(error, _UNBINDABLE):
        return BackendRefused(f"{place}: these values are refused, nothing of the call was applied: {text} ({number})")
    if number in _MISCONFIGURED:
        return BackendMisconfigured(f"{place}: {text} ({number})")
    if number in _READ_ONLY:
        return BackendUnavailable(f"{place}: {text} ({number}): it may be a replica that is about to take over")
    if not is_from_server(error) or number in _AWAY or number in _TRANSIENT:
        return BackendUnavailable(f"{place}: {text} ({number}): whether the call was applied is unknown")
    return BackendError(f"{place}: {text} ({number})")


def unreachable(error: Exception, place: str) -> BackendError:
    """Return the error to raise instead if no connection could be opened."""
    return unreachable_error(place, _text(error), refused=code(error) in _MISCONFIGURED)


def code(error: BaseException) -> int:
    first = error.args[0] if isinstance(error, pymysql.err.MySQLError) and error.args else 0
    return first if isinstance(first, int) else 0


def _text(error: BaseException) -> str:
    """Return the text in one line, without the statement."""
    said = error.args[1] if len(error.args) > 1 and isinstance(error.args[1], str) else str(error)
    return said.strip().split("\n", 1)[0] or type(error).__name__
