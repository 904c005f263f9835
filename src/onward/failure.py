"""What is kept of an exception: a kind, a message and a bounded traceback, all of it storable text.

Nothing here can fail: an exception whose ``__str__``, class or attributes raise, a NUL or a lone surrogate in its
message, a traceback a million frames deep all become text that every store accepts.  Locals never appear.
(`traceback.format_exception` costs 46 µs a failure and has no bound; this costs a fraction.)
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import msgspec

from onward.wording import counted

__all__ = ["Failure", "describe", "escaped", "kind_of", "message_of", "storable", "user_part"]

MESSAGE_LIMIT = 4_096
TRACEBACK_LIMIT = 16_384
_FRAMES = 12
_CHAIN = 4
_PLACES = 2_048  # lines of code that are remembered


class Failure(msgspec.Struct, frozen=True):
    """One failed run as it is recorded."""

    kind: str
    message: str
    traceback: str = ""


def describe(error: BaseException) -> Failure:
    """An exception as a record."""
    return Failure(kind_of(error), message_of(error), _traceback(error))


def kind_of(thing: object) -> str:
    """The name of its class."""
    try:
        return storable(type(thing).__qualname__, 200)
    except BaseException:  # noqa: BLE001  a metaclass may answer with anything
        return "?"


def storable(text: str, limit: int = MESSAGE_LIMIT) -> str:
    r"""Text that any store accepts: no NUL, no lone surrogates, bounded.

    >>> storable("a\x00b\ud800")
    'a\\x00b\\ud800'
    """
    if type(text) is not str:
        text = str.__str__(text)  # a subclass may have methods of its own
    text = text[: limit + 1]  # of a huge text the rest is never looked at
    if "\x00" in text:
        text = text.replace("\x00", "\\x00")
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def escaped(text: str) -> str:
    r"""The text with everything written out that is not plainly visible.

    >>> escaped("\x1b[2J done")
    '\\x1b[2J done'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def message_of(error: BaseException, limit: int = MESSAGE_LIMIT) -> str:
    try:
        return storable(str(error), limit)
    except BaseException:  # noqa: BLE001  a broken __str__ must not hide the failure
        return f"<{kind_of(error)} whose text cannot be had>"


def _traceback(error: BaseException) -> str:
    try:
        return storable(_told_whole(error), TRACEBACK_LIMIT)
    except BaseException:  # noqa: BLE001  an exception's attributes may be code of the user's own
        return f"<{kind_of(error)} whose traceback cannot be had>"


def _told_whole(error: BaseException) -> str:
    """What led to it first, itself last.  Each link has an equal share of the room and fills it from its end."""
    links = _links(error)
    room = TRACEBACK_LIMIT // len(links)
    parts: list[str] = []
    for link, joint in reversed(links):
        end = f"{kind_of(link)}: {message_of(link, 1_000)}\n{joint}"
        parts += [_frames(link.__traceback__)[len(end) - room :], end]
    return "".join(parts)


def _links(error: BaseException) -> list[tuple[BaseException, str]]:
    """The exception and what led to it, with the words between that and what it led to."""
    links = [(error, "")]
    for link, _ in links:  # which grow while they are walked
        for origin, joint in _origins(link):
            if len(links) < _CHAIN and all(origin is not known for known, _ in links):
                links.append((origin, joint))
    return links


def _origins(error: BaseException) -> Iterator[tuple[BaseException, str]]:
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions[:_CHAIN]:
            yield member, "\nwhich is part of the group below:\n\n"
    if error.__cause__ is not None:
        yield error.__cause__, "\nwhich directly caused:\n\n"
    elif error.__context__ is not None and not error.__suppress_context__:
        yield error.__context__, "\nwhile it was handled, there came:\n\n"


def user_part(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback from where code begins that is not the engine's; all of it, if there is none."""
    first = traceback
    while first is not None and _is_engine(first.tb_frame.f_code.co_filename):
        first = first.tb_next
    return first or traceback


def _is_engine(file: str) -> bool:
    return file.startswith(_PACKAGE) and not file.startswith(_HANDLERS)


_PACKAGE = f"{Path(__file__).parent}{os.sep}"
# Handlers that come with the package, which a user runs like his own.
_HANDLERS = tuple(f"{_PACKAGE}{Path(*folder)}{os.sep}" for folder in (("handlers",), ("cli", "demo"), ("testing",)))


def _frames(traceback: TracebackType | None) -> str:
    """The innermost frames: those of the engine are left out, the last ones tell what went wrong."""
    traceback = user_part(traceback)
    last: list[TracebackType] = []
    dropped = 0
    while traceback is not None:
        last.append(traceback)
        if len(last) > _FRAMES:
            del last[0]
            dropped += 1
        traceback = traceback.tb_next
    lines = [f"  … {counted(dropped, 'outer frame')}\n"] if dropped else []
    lines += [_told(entry) for entry in last]
    return "".join(lines)


def _told(entry: TracebackType) -> str:
    """Where it was.  The same places fail again and again, and to find out what stands there takes longest."""
    code = entry.tb_frame.f_code
    place = (code.co_filename, entry.tb_lineno, code.co_name)
    told = _places.get(place)
    if told is None:
        told = f'  File "{code.co_filename}", line {entry.tb_lineno}, in {code.co_name}\n'
        if source := _source(entry):
            told += f"    {source}\n"
        if len(_places) >= _PLACES:
            _places.clear()
        _places[place] = told
    return told


_places: dict[tuple[str, int, str], str] = {}


def _source(entry: TracebackType) -> str:
    frame = entry.tb_frame
    try:
        return linecache.getline(frame.f_code.co_filename, entry.tb_lineno, frame.f_globals).strip()[:200]
    except BaseException:  # noqa: BLE001  generated code may have no line, and its loader may raise anything
        return ""
