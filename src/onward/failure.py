"""What is kept of an exception: a kind, a message and a bounded traceback, all of it storable text.

Nothing here can fail: an exception whose ``__str__`` raises, a NUL or a lone surrogate in its message, a traceback a
million frames deep all become text that every store accepts.  Locals never appear.  (`traceback.format_exception`
costs 46 µs a failure and has no bound; this costs a fraction.)
"""

from __future__ import annotations

import linecache
from types import TracebackType

import msgspec

__all__ = ["Failure", "describe", "storable"]

MESSAGE_LIMIT = 4_096
TRACEBACK_LIMIT = 16_384
_FRAMES = 12
_CHAIN = 4


class Failure(msgspec.Struct, frozen=True):
    """One failed run as it is recorded."""

    kind: str
    message: str
    traceback: str = ""


def describe(error: BaseException) -> Failure:
    """An exception as a record."""
    return Failure(
        kind=storable(type(error).__qualname__, 200),
        message=_message(error),
        traceback=storable(_chain(error), TRACEBACK_LIMIT),
    )


def storable(text: str, limit: int = MESSAGE_LIMIT) -> str:
    r"""Text that any store accepts: no NUL, no lone surrogates, bounded.

    >>> storable("a\x00b\ud800")
    'a\\x00b\\ud800'
    """
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if "\x00" in text:
        text = text.replace("\x00", "\\x00")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _message(error: BaseException) -> str:
    try:
        return storable(str(error))
    except Exception:  # noqa: BLE001  a broken __str__ must not hide the failure
        return f"<{type(error).__qualname__} whose text cannot be had>"


def _chain(error: BaseException) -> str:
    parts: list[str] = []
    seen: set[int] = set()
    link: BaseException | None = error
    joint = ""
    while link is not None and id(link) not in seen and len(seen) < _CHAIN:
        seen.add(id(link))
        parts.append(f"{_frames(link.__traceback__)}{type(link).__qualname__}: {_message(link)}\n{joint}")
        if link.__cause__ is not None:
            link, joint = link.__cause__, "\nwhich directly caused:\n\n"
        elif link.__context__ is not None and not link.__suppress_context__:
            link, joint = link.__context__, "\nduring whose handling there came:\n\n"
        else:
            link = None
    return "".join(reversed(parts))


def _frames(traceback: TracebackType | None) -> str:
    """The innermost frames: the outermost are ours, the last ones tell what went wrong."""
    last: list[TracebackType] = []
    dropped = 0
    while traceback is not None:
        last.append(traceback)
        if len(last) > _FRAMES:
            del last[0]
            dropped += 1
        traceback = traceback.tb_next
    lines = [f"  … {dropped} outer frames\n"] if dropped else []
    for entry in last:
        code = entry.tb_frame.f_code
        lines.append(f'  File "{code.co_filename}", line {entry.tb_lineno}, in {code.co_name}\n')
        source = linecache.getline(code.co_filename, entry.tb_lineno, entry.tb_frame.f_globals).strip()
        if source:
            lines.append(f"    {source}\n")
    return "".join(lines)
