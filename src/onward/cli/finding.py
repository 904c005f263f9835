"""Listing the jobs that match a filter, the newest first, and saying how far the command looked."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from onward.cli import output, timeline
from onward.cli.exits import Exit
from onward.cli.table import Column

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.client.record import JobRecord

__all__ = ["list_found"]

_PAGE = 500


def list_found(app: Onward, args: Namespace, text: str, columns: Sequence[Column[JobRecord]]) -> int:
    """Print the jobs that match: a page, or with ``--all`` every page."""
    search = _Search(app, text)
    pages = search.pages(limit=None if args.all else args.limit, after=args.after, everything=args.all)
    shown = output.listing(args, pages, columns, timeline.as_data)
    if shown.last is None and search.next is None:
        output.say(args, "no job matches")
    if search.next is not None:
        output.say(args, f"looked through {search.looked:,} of the newest: go on with --after {search.next}, or --all")
    if search.hidden:
        output.say(
            args,
            f"the arguments of {search.hidden:,} were not compared: name the application that defines the jobs with --app",
        )
    return Exit.OK


class _Search:
    """Asks for page after page."""

    def __init__(self, app: Onward, text: str) -> None:
        self._app = app
        self._text = text
        self.looked = 0
        self.hidden = 0
        self.next: str | None = None

    def pages(self, *, limit: int | None, after: str | None, everything: bool) -> Iterator[Sequence[JobRecord]]:
        """Yield what is found; without ``everything`` one look, which is bounded, and no more than ``limit``."""
        left = math.inf if limit is None else limit
        while left > 0:
            found = self._app.find(self._text, limit=int(min(left, _PAGE)), after=after)
            self.looked += found.looked
            self.hidden += found.hidden
            self.next = after = found.next
            yield found.jobs
            left -= len(found.jobs)
            if found.next is None or (not everything and len(found.jobs) < _PAGE):
                return
