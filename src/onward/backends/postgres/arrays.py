r"""Lists as PostgreSQL arrays: one value for a column of a whole batch.

The driver takes ten times as long for it, as long as the statement.  Text, numbers and booleans are written as an array
literal, which is JSON but for its brackets; bytes in the binary format, which does not double their size.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec

from onward.backends.postgres.driver import psycopg

__all__ = ["Blobs", "as_array", "blobs_dumper", "literal"]

_encode = msgspec.json.Encoder().encode
_BYTEA, _BYTEA_ARRAY = 17, 1001
_NULL = struct.pack(">i", -1)


class Blobs(msgspec.Struct):
    """An array of bytes, as the server takes it."""

    data: bytes


class blobs_dumper(psycopg.adapt.Dumper):  # noqa: N801 - registered, never called by name
    format = psycopg.pq.Format.BINARY
    oid = _BYTEA_ARRAY

    def dump(self, obj: Blobs) -> bytes:
        return obj.data


def as_array(values: Sequence[object]) -> str | Blobs:
    """Return the parameter that stands for a list."""
    first = next((value for value in values if value is not None), None)
    return Blobs(_binary(values)) if isinstance(first, bytes) else literal(values)


def literal(values: Sequence[object]) -> str:
    r"""Return a list as the text of an array.

    >>> literal([1, None, 2]), literal(["a", 'quo"ted', "a\\b", "line\n"]), literal([True])
    ('{1,null,2}', '{"a","quo\\"ted","a\\\\b","line\n"}', '{true}')
    """
    encoded = _encode(values)[1:-1].decode()
    if "\\" in encoded:  # JSON escapes more than an array does
        # Jobs that fail together have the same traceback, and most have the same worker: each is quoted once.
        quoted = {text: _quoted(text) for text in set(values) if isinstance(text, str)}
        encoded = ",".join(quoted[value] if isinstance(value, str) else _encode(value).decode() for value in values)
    return f"{{{encoded}}}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _binary(values: Sequence[object]) -> bytes:
    # Dimensions, whether there are nulls, the type of the elements; then the length and the first index.
    parts = [struct.pack(">iiiii", 1, 1, _BYTEA, len(values), 1)]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            assert isinstance(value, bytes)
            parts += (len(value).to_bytes(4, "big"), value)
    return b"".join(parts)
