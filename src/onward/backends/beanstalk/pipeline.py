"""Many commands at once: sent together, answered one by one in their order.

The driver waits for every answer before it sends the next command: a round trip for each.  The protocol does not require
that: the server executes and answers each command as if it had come alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from onward.backends.beanstalk.driver import greenstalk

__all__ = ["ServerAnswer", "ask"]

# Few enough that neither side ever waits for the other to read: large commands have short answers, and the reverse.
AT_ONCE = 100
_WITH_BODY = {b"RESERVED", b"FOUND", b"OK"}


class ServerAnswer(NamedTuple):
    """A line, and the bytes that follow some of them."""

    word: bytes
    values: list[bytes]
    body: bytes = b""

    @property
    def error(self) -> Exception:
        """The error that the driver would raise."""
        kind = greenstalk.ERROR_RESPONSES.get(self.word)
        if kind is None:
            return greenstalk.UnknownResponseError(self.word, self.values)
        return kind(self.values) if kind is greenstalk.BuriedError else kind()


def ask(client: Any, commands: Sequence[bytes]) -> Iterator[ServerAnswer]:
    """Send commands, and yield their answers.  A caller that does not read all of them must close the connection."""
    for start in range(0, len(commands), AT_ONCE):
        sent = commands[start : start + AT_ONCE]
        _send(client, sent)
        for _ in sent:
            yield _answer(client)


def _send(client: Any, commands: Sequence[bytes]) -> None:
    client._sock.sendall(b"\r\n".join([*commands, b""]))  # noqa: SLF001  the driver has no method for this


def _answer(client: Any) -> ServerAnswer:
    line = client._reader.readline()  # noqa: SLF001  it has the bytes that were read ahead
    if line[-2:] != b"\r\n":
        raise ConnectionError("the connection ended in the middle of an answer")
    word, *values = line.split()
    if word not in _WITH_BODY:
        return ServerAnswer(word, values)
    size = int(values[-1])
    body = client._reader.read(size + 2)  # noqa: SLF001
    if len(body) != size + 2 or body[size:] != b"\r\n":
        raise ConnectionError("the connection ended in the middle of a job")
    return ServerAnswer(word, values, body[:size])
