"""What a cell may hold that no worker would have written there."""

# By kind of damage.  A store refuses some of these for some columns; that is the best outcome, and counted as such.
HOSTILE = {
    "null": None,
    "minus one": -1,
    "minus a billion": -1_000_000_000,
    "zero": 0,
    "beyond 32 bits": 2**32,
    "largest integer": 2**63 - 1,
    "smallest integer": -(2**63),
    "a fraction": 1.5,
    "a huge fraction": 1e300,
    "empty text": "",
    "an unknown word": "nonsense",
    "a state of another table": "completed",
    "a running state": "executing",
    "text with NUL": "a\0b",
    "an escape sequence": "\x1b[31mred\x1b[0m\r\n",
    "a bracket": "{",
    "four hundred digits": "9" * 400,
    "long text": "x" * 200_000,
    "bytes that are no text": b"\xff\xfe\xfd",
    "half a character": "é".encode()[:1],
    "a lone surrogate": b"\xed\xa0\x80",
    "zero bytes": b"\0" * 16,
    "deep JSON": b"[" * 5_000,
    "valid JSON of another shape": b'{"fraction": "half", "note": 7}',
}
