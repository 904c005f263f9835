"""The record of an exception: a kind, a message and a bounded traceback, all of it text that every store accepts.

No function here raises: an exception whose ``__str__``, class or attributes raise, a NUL or a lone surrogate in its message,
a traceback a million frames deep all become storable text.  Local variables never appear in it.
(`traceback.format_exception` costs 46 µs a failure and has no bound; this costs a fraction.)
"""

from __future__ import annotations

import linecache
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, TracebackType
from typing import NamedTuple

import msgspec

from onward.base.credentials import without_credentials
from onward.base.fingerprint import of_error, of_place, of_text
from onward.base.wording import counted

__all__ = [
    "Failure",
    "describe",
    "describe_behind",
    "escaped",
    "escaped_lines",
    "kind_of",
    "message_of",
    "name_of",
    "stated",
    "storable",
    "user_part",
]

Scrub = Callable[[str], str]

MESSAGE_LIMIT = 4_096
TRACEBACK_LIMIT = 16_384
_FRAMES = 12
_CHAIN = 4
_PLACES = 2_048  # lines of code that are remembered
_KNOWN = 128  # places at which exceptions were raised, with the newest of each
_DEEPEST = 100  # numbers that name such a place: two for each frame


class Failure(msgspec.Struct, frozen=True):
    """One failed run as it is recorded."""

    kind: str
    message: str
    traceback: str = ""
    fingerprint: str = ""  # the same for the same failure; "": not known


def describe(error: BaseException, scrub: Scrub = without_credentials) -> Failure:
    """Make the record of an exception.  ``scrub`` masks secrets in its texts, before they are cut."""
    if scrub is without_credentials and (place := _place_of(error)) is not None:
        with suppress(BaseException):  # its text may be code of the user's
            return _described_at(place, error, _plain(str(error)))
    said, kind = _said(error, scrub), kind_of(error, scrub)
    message = storable(said)
    return Failure(kind, message, _traceback(error, said, scrub), of_error(error, kind, message))


class _Known(NamedTuple):
    """What exceptions of one class from one place have in common, and the newest of them."""

    kind: str
    frames: str
    fingerprint: str  # "": the message counts
    error_type: weakref.ref[type]  # not kept alive, for a class may refer to anything: its id may name another by now
    codes: tuple[CodeType, ...]  # alive, so that no other code gets the ids that name the place
    text: str | None  # of the newest; None: it is not remembered
    failure: Failure


_Place = tuple[int, ...]
_known: dict[_Place, _Known] = {}


def _place_of(error: BaseException) -> _Place | None:
    """Return numbers that name the class of an exception and the way to it; None if it is told with others, or deep."""
    place: list[int] = [id(type(error))]
    try:
        if _is_linked(error):
            return None
        entry = error.__traceback__
        while entry is not None:
            place += (id(entry.tb_frame.f_code), entry.tb_lasti)
            if len(place) > _DEEPEST:
                return None
            entry = entry.tb_next
    except BaseException:  # noqa: BLE001  an exception's attributes may be code of the user's
        return None
    return tuple(place)


def _described_at(place: _Place, error: BaseException, text: str) -> Failure:
    """Make the record of an exception that nothing else led to; of one that was met before, only what its text changes."""
    known = _known.get(place)
    if known is not None and known.error_type() is not type(error):
        known = None
    if known is not None and known.text == text:
        return known.failure
    said = without_credentials(text)
    if known is None:
        kind = kind_of(error)
        frames, fingerprint = _frames(error.__traceback__, without_credentials), of_place(error, kind)
        common = kind, frames, fingerprint, weakref.ref(type(error)), _codes(error)
    else:
        common = known[:5]
        kind, frames, fingerprint, *_ = common
    message = storable(said)
    traceback = storable(_ended(frames, kind, said, "", TRACEBACK_LIMIT), TRACEBACK_LIMIT)
    failure = Failure(kind, message, traceback, fingerprint or of_text(kind, message))
    if known is None and len(_known) >= _KNOWN:
        _known.clear()
    remembered = said if said == text and len(said) <= MESSAGE_LIMIT else None  # no credentials, and nothing huge
    _known[place] = _Known(*common, remembered, failure)
    return failure


def _codes(error: BaseException) -> tuple[CodeType, ...]:
    kept: list[CodeType] = []
    entry = error.__traceback__
    while entry is not None:
        kept.append(entry.tb_frame.f_code)
        entry = entry.tb_next
    return tuple(kept)


def describe_behind(error: BaseException, cause: BaseException, scrub: Scrub) -> Failure:
    """Make the record of a cause that another exception was raised from, with the traceback of both."""
    kind, message = kind_of(cause, scrub), message_of(cause, scrub)
    return Failure(kind, message, _traceback(error, _said(error, scrub), scrub), of_error(cause, kind, message))


def stated(kind: str, message: str, fingerprint: str | None = None) -> Failure:
    """Make the record of a failure that is no exception."""
    message = storable(message)
    return Failure(kind, message, "", of_text(kind, message) if fingerprint is None else fingerprint)


def kind_of(thing: object, scrub: Scrub = without_credentials) -> str:
    """Return the name of an object's class; unless it is Python's own, with its module.

    >>> from decimal import Inexact
    >>> kind_of(ValueError()), kind_of(Inexact())
    ('ValueError', 'decimal.Inexact')
    """
    return _kind(type(thing), scrub)


def name_of(kind: type) -> str:
    """Return what `kind_of` says of the instances of a class."""
    return _kind(kind, without_credentials)


def _kind(kind: type, scrub: Scrub) -> str:
    try:
        module, name = _plain(kind.__module__), _plain(kind.__qualname__)
        if module != "builtins":
            name = f"{module}.{name}"
        return storable(name if scrub is without_credentials else scrub(name), 200)
    except BaseException:  # noqa: BLE001  a metaclass may raise anything
        return "?"


def storable(text: str, limit: int = MESSAGE_LIMIT) -> str:
    r"""Make text that any store accepts: no NUL, no lone surrogates, bounded.

    >>> storable("a\x00b\ud800")
    'a\\x00b\\ud800'
    """
    text = _plain(text)[: limit + 1]  # the rest of a huge text is never read
    if "\x00" in text:
        text = text.replace("\x00", "\\x00")
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def escaped(text: str) -> str:
    r"""Escape every character that is not printable.

    >>> escaped("\x1b[2J done")
    '\\x1b[2J done'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def escaped_lines(text: str) -> str:
    """Escape text that may have several lines, such as a traceback."""
    return "\n".join(map(escaped, text.split("\n")))


def message_of(error: BaseException, scrub: Scrub = without_credentials) -> str:
    """Return the message of an exception, as it may be kept."""
    return storable(_said(error, scrub))


def _said(error: BaseException, scrub: Scrub) -> str:
    try:
        return scrub(_plain(str(error)))
    except BaseException:  # noqa: BLE001  a broken __str__ must not hide the failure
        return f"<{kind_of(error, scrub)} whose text cannot be read>"


def _plain(text: str) -> str:
    """Turn a subclass of `str`, which may override methods, into a plain one."""
    return text if type(text) is str else str.__str__(text)


def _traceback(error: BaseException, said: str, scrub: Scrub) -> str:
    try:
        return storable(_told_whole(error, said, scrub), TRACEBACK_LIMIT)
    except BaseException:  # noqa: BLE001  an exception's attributes may be code of the user's
        return f"<{kind_of(error, scrub)} whose traceback cannot be read>"


def _told_whole(error: BaseException, said: str, scrub: Scrub) -> str:
    """Format the causes first and the exception last.  Each gets an equal share of the room and fills it from its end."""
    links = _links(error)
    room = TRACEBACK_LIMIT // len(links)
    parts: list[str] = []
    for link, joint in reversed(links):
        frames, told = _frames(link.__traceback__, scrub), said if link is error else _said(link, scrub)
        parts.append(_ended(frames, kind_of(link, scrub), told, joint, room))
    return "".join(parts)


def _ended(frames: str, kind: str, said: str, joint: str, room: int) -> str:
    """Put the line of an exception, and what leads to the next, behind its frames."""
    end = f"{kind}: {storable(said, 1_000)}\n{joint}"
    return frames[len(end) - room :] + end


def _is_linked(error: BaseException) -> bool:
    """Return whether another exception is told with it."""
    return (
        error.__cause__ is not None
        or (error.__context__ is not None and not error.__suppress_context__)
        or issubclass(type(error), BaseExceptionGroup)
    )


def _links(error: BaseException) -> list[tuple[BaseException, str]]:
    """Return the exception and its causes, each with the words that lead to the next."""
    links = [(error, "")]
    for link, _ in links:  # the list grows while it is walked
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
        yield error.__context__, "\nduring its handling this was raised:\n\n"


def user_part(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the first frame that is not the engine's; all of it, if there is none."""
    first = traceback
    while first is not None and _is_engine(first.tb_frame.f_code.co_filename):
        first = first.tb_next
    return first or traceback


def _is_engine(file: str) -> bool:
    return file.startswith(_PACKAGE) and not file.startswith(_HANDLERS)


_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
# Handlers that come with the package: their frames are shown, as those of the user's own handlers.
_HANDLERS = tuple(f"{_PACKAGE}{Path(*folder)}{os.sep}" for folder in (("handlers",), ("cli", "demo"), ("testing",)))


def _frames(traceback: TracebackType | None, scrub: Scrub) -> str:
    """Format the innermost frames, without those of the engine."""
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
    lines += [_told(entry, scrub) for entry in last]
    return "".join(lines)


def _told(entry: TracebackType, scrub: Scrub) -> str:
    """Format one frame.  Cached: the same places fail again and again, and reading the source takes longest."""
    if scrub is not without_credentials:  # its secrets belong to one job, so the line is not cached
        return _place(entry, scrub)
    code = entry.tb_frame.f_code
    place = (code.co_filename, entry.tb_lineno, code.co_name)
    told = _places.get(place)
    if told is None:
        told = _place(entry, scrub)
        if len(_places) >= _PLACES:
            _places.clear()
        _places[place] = told
    return told


_places: dict[tuple[str, int, str], str] = {}


def _place(entry: TracebackType, scrub: Scrub) -> str:
    code = entry.tb_frame.f_code
    told = f'  File "{code.co_filename}", line {entry.tb_lineno}, in {code.co_name}\n'
    source = _source(entry)
    return scrub(told) + (f"    {scrub(source)[:200]}\n" if source else "")


def _source(entry: TracebackType) -> str:
    frame = entry.tb_frame
    try:
        return linecache.getline(frame.f_code.co_filename, entry.tb_lineno, frame.f_globals).strip()
    except BaseException:  # noqa: BLE001  generated code may have no line, and its loader may raise anything
        return ""
