"""Acts on all jobs that match a filter: first a preview, then the act, batch by batch.

    preview = jobs.preview("replay", "state:dead queue:mail")      # how many, three of them, and the newest
    for progress in jobs.bulk("replay", "state:dead queue:mail", until=preview.until): ...

What arrives after the preview is not swept along.  500 jobs are written at a time, each only if it is still in the state in
which it was found; a caller that stops the iterator stops the act after the batch.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec

from onward.backend import StoredJob
from onward.client.record import JobRecord
from onward.errors import OptionError
from onward.job.states import State
from onward.operate.acts import Act, Acted, Acts, Trail, states_for
from onward.operate.filters import Filter
from onward.operate.finding import LOOKED_FOR, PAGE, Finder, Until

__all__ = ["Bulk", "BulkProgress", "Preview"]

COUNTED = 10_000  # jobs that a preview counts


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What a bulk act would change."""

    act: Act
    filter: str
    count: int
    exact: bool  # False: there may be more
    by_queue: dict[tuple[str, State], int]
    samples: tuple[JobRecord, ...]  # some of them, the oldest
    until: Until | None  # None: nothing matches


class BulkProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One batch of a bulk act.  Numbers are of all batches so far."""

    done: int
    looked: int
    ids: tuple[str, ...]  # of this batch, those that were changed; of a purge those that were to be removed
    skipped: dict[str, str]  # of this batch, with the reason


class Bulk:
    """Previews bulk acts and carries them out."""

    def __init__(self, finder: Finder, acts: Acts) -> None:
        self.finder = finder
        self._acts = acts

    def filter(self, act: Act, text: str, queues: Sequence[str] | None = None) -> Filter:
        """Read the filter of an act, for jobs of these queues.  An empty one is refused: it would mean every job."""
        parsed = self.finder.parse(text)
        if not parsed.text:
            raise OptionError(f"an empty filter means every job: say which, as in {act} 'state:… queue:…'")
        return msgspec.structs.replace(parsed, states=states_for(act, parsed.states)).within(queues)

    def preview(
        self,
        act: Act,
        text: str,
        *,
        samples: int = 3,
        at_most: int | None = COUNTED,
        limit: int | None = None,
        queues: Sequence[str] | None = None,
    ) -> Preview:
        """Count what matches, up to ``at_most`` and for at most a second; None: all of it, however long that takes.

        ``limit``: of an act that changes no more than so many.
        """
        parsed = self.filter(act, text, queues)
        until, counts, shown = self.finder.until(parsed), Counter[tuple[str, State]](), list[JobRecord]()
        exact, deadline = True, time.monotonic() + LOOKED_FOR
        for batch in () if until is None else self.finder.batches(parsed, until):
            jobs = batch.jobs if limit is None else batch.jobs[: limit - counts.total()]
            counts.update((stored.queue, stored.state) for stored in jobs)
            shown += [self.finder.record(stored) for stored in jobs[: samples - len(shown)]]
            if limit is not None and counts.total() >= limit:
                break
            if at_most is not None and (counts.total() >= at_most or time.monotonic() > deadline):
                exact = False
                break
        return Preview(
            act=act,
            filter=parsed.text,
            count=counts.total(),
            exact=exact,
            by_queue=dict(counts),
            samples=tuple(shown),
            until=until if counts else None,
        )

    def run(
        self,
        act: Act,
        text: str,
        *,
        until: Until | None = None,
        limit: int | None = None,
        fresh: bool = False,
        queues: Sequence[str] | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> Iterator[BulkProgress]:
        """Act on all that match, oldest first; without ``until`` on what there is now.  ``limit``: at most so many."""
        parsed = self.filter(act, text, queues)
        told = "" if by is None and act == "cancel" else reason  # the reason of a cancel is kept with the job, too
        trail = Trail(self._acts.auditor, "bulk", f"{act} {parsed.shown}", by, told)

        def write(jobs: Sequence[StoredJob]) -> Acted:
            return self._acts.act(act, jobs, trail, reason=reason, fresh=fresh)

        return self._run(act, parsed, until or self.finder.until(parsed), limit=limit, write=write)

    def _run(
        self,
        act: Act,
        parsed: Filter,
        until: Until | None,
        *,
        limit: int | None,
        write: Callable[[Sequence[StoredJob]], Acted],
    ) -> Iterator[BulkProgress]:
        done, looked = 0, 0
        for batch in () if until is None else self.finder.batches(parsed, until, size=min(limit or PAGE, PAGE)):
            jobs = batch.jobs if limit is None else batch.jobs[: limit - done]
            acted = write(jobs)
            done, looked = done + acted.number, looked + batch.looked
            ids = acted.ids or [stored.id for stored in jobs if act == "purge"]
            yield BulkProgress(done=done, looked=looked, ids=tuple(ids), skipped=acted.skipped)
            if limit is not None and done >= limit:
                return
