"""Rows in aligned columns, page after page: a column may grow from page to page, and never narrows again.

On a terminal a row is one line: columns that do not fit are left out (``useful`` ones) or cut (``flexible`` ones).
Elsewhere nothing is cut.  (A table of rich needs all rows at once, and takes long to import.)
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from onward.cli.text import escaped

__all__ = ["Column", "Span", "StyledLine", "Table", "clipped", "cut", "measure"]

Row = TypeVar("Row")

Span = tuple[str, str]  # text and its style
StyledLine = Sequence[Span]

_GAP = 2
_NARROWEST = 6


class Column(NamedTuple, Generic[Row]):
    heading: str
    cell: Callable[[Row], str]
    style: Callable[[Row], str] | str = ""
    right: bool = False  # whether it is aligned to the right, as numbers are
    flexible: bool = False  # may be cut short
    useful: bool = False  # may be left out


class Table(Generic[Row]):
    """Rows as lines.  ``width`` None: nothing is cut."""

    def __init__(self, columns: Sequence[Column[Row]], *, width: int | None) -> None:
        self._columns = list(columns)
        self._width = width
        self._naturals: list[int] = []

    def page(self, rows: Sequence[Row]) -> Iterator[StyledLine]:
        """Yield the lines of some rows, with the headings above the first page."""
        if not rows:
            return
        first = not self._naturals
        if first:
            self._leave_out(rows)
        self._naturals = [
            max(natural, _natural(column, rows)) for column, natural in zip(self._columns, self._naturals, strict=True)
        ]
        widths = self._fitted()
        if first:
            yield self._line([(column.heading, "bold") for column in self._columns], widths)
        for row in rows:
            yield self._line([_span(column, row) for column in self._columns], widths)

    def _leave_out(self, rows: Sequence[Row]) -> None:
        """Drop useful columns from the right, until the first page fits."""
        naturals = [_natural(column, rows) for column in self._columns]
        for index in reversed(range(len(naturals))):
            if self._columns[index].useful and self._width is not None and _total(naturals) > self._width:
                del self._columns[index], naturals[index]
        self._naturals = naturals

    def _fitted(self) -> list[int]:
        widths = list(self._naturals)
        flexible = [index for index, column in enumerate(self._columns) if column.flexible]
        while self._width is not None and flexible and _total(widths) > self._width:
            widest = max(flexible, key=lambda index: widths[index])
            if widths[widest] <= _NARROWEST:
                break
            widths[widest] -= 1
        return widths

    def _line(self, spans: Sequence[Span], widths: Sequence[int]) -> StyledLine:
        line: list[Span] = []
        last = len(spans) - 1
        for index, ((text, style), width, column) in enumerate(zip(spans, widths, self._columns, strict=True)):
            shown = cut(text, width)
            padding = " " * (width - measure(shown))
            if column.right:
                line.append((padding, ""))
            line.append((shown, style))
            if index < last:
                line.append((" " * _GAP if column.right else padding + " " * _GAP, ""))
        while line and not line[-1][0].strip():
            line.pop()
        return line


def measure(text: str) -> int:
    """Return how many columns of a terminal a text takes.

    >>> measure("héllo"), measure("日本")
    (5, 4)
    """
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, width: int) -> str:
    """Return a text, cut to a width.

    >>> cut("send_welcome", 8)
    'send_we…'
    """
    if measure(text) <= width:
        return text
    while measure(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def clipped(line: StyledLine, columns: int) -> StyledLine:
    """Return a line, cut to the width."""
    spans, left = [], columns
    for text, style in line:
        shown = cut(escaped(text), left) if left > 0 else ""
        spans.append((shown, style))
        left -= measure(shown)
    return spans


def _natural(column: Column[Any], rows: Sequence[Any]) -> int:
    return max(measure(column.heading), *(measure(escaped(column.cell(row))) for row in rows))


def _span(column: Column[Any], row: Any) -> Span:
    return escaped(column.cell(row)), column.style(row) if callable(column.style) else column.style


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)
