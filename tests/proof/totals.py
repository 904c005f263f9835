"""The words of the totals: what was done to the stores and what went wrong, with the figures and flaws that count as each.

Every proof names its own figures and flaws; the page of all proofs has these words only.  A figure or flaw that has the name
of a total counts as it; finer names are in the table.  What is in no row counts as "other flaws".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

__all__ = ["DONE", "OTHER", "WRONG", "Total", "added", "totals_of"]


class Total(NamedTuple):
    """A line of the totals."""

    name: str
    means: str
    finer: frozenset[str] = frozenset()

    def among(self, counted: Mapping[str, float]) -> int | None:
        """Add up what counts as this; nothing if it was not looked for."""
        found = [counted[name] for name in counted if name == self.name or name in self.finer]
        return int(sum(found)) if found else None


DONE = (
    Total(
        "jobs",
        "enqueued, and followed to their end",
        frozenset({"members", "ticks", "transactions", "completions", "starts"}),
    ),
    Total("kills of workers", "processes that run handlers, ended by SIGKILL or by themselves"),
    Total("kills of supervisors", "ended by SIGKILL, alone or with all of their processes"),
    Total("kills of servers", "crashed as in a power cut, and started again"),
    Total("kills of transfers", "`onward move`, ended by SIGKILL on its way"),
    Total("pauses", "processes stopped by SIGSTOP for longer than their lease, and continued"),
    Total("cut replies", "calls that the store carried out and whose answer never came; sessions that were ended"),
    Total("clock jumps", "the wall clock of workers and supervisors set an hour ahead or back while they run"),
    Total("deploys", "a supervisor told to stop (SIGTERM) and another one started in its place, at work"),
)

WRONG = (
    Total(
        "lost",
        "jobs that were accepted and are gone, or did not come to their end",
        frozenset({
            "not completed", "unfinished", "left", "never settled", "committed and not run", "ran too rarely",
            "keys that never ran", "claimed and not settled", "jobs that ended as they should not",
        }),
    ),
    Total(
        "settled twice",
        "jobs whose end was written more often than once, or not at all",
        frozenset({"settled twice or not", "counted more than once", "in both"}),
    ),
    Total(
        "run twice without a cause",
        "runs beyond those that a failure, a crash or an interruption on record explains",
        frozenset({
            "begun twice under one delivery", "begun twice under one lease", "claimed twice", "run twice",
            "ran too often", "keys that ran twice", "deliveries that ran twice", "last jobs not run once",
            "starts of the last job too many or too few", "jobs of nodes that never opened, begun",
        }),
    ),
    Total(
        "effects missing",
        "rows, jobs and results of a completed handler's transaction that are not there",
        frozenset({"children missing", "results missing", "results missed", "children missed"}),
    ),
    Total(
        "effects doubled",
        "of these, there more often than once; or there although the transaction was rolled back",
        frozenset({"children twice", "rolled back and run", "stored twice"}),
    ),
    Total(
        "flows stuck",
        "flows that did not end, or not by the rules",
        frozenset({"nodes against the rules", "alarms of the net", "jobs begun too early"}),
    ),
    Total("ticks missed", "ticks of schedules whose job did not run", frozenset({"missed"})),
    Total("ticks doubled", "jobs of schedules beyond one for each tick"),
    Total(
        "limits exceeded",
        "instants with more runs than a limit, windows with more starts than a rate, keys with two holders",
        frozenset({
            "instants with more runs than the limit", "looks with more leases than the limit",
            "windows with too many starts", "keys held twice",
        }),
    ),
)  # fmt: skip

OTHER = "other flaws"


def totals_of(figures: Mapping[str, float], flaws: Mapping[str, int], errors: int = 0) -> dict[str, int]:
    """Give what a proof counted in the words of the totals.  A word that is missing was not looked for."""
    found = {total.name: total.among(figures) for total in DONE} | {total.name: total.among(flaws) for total in WRONG}
    named = {name for total in WRONG for name in (total.name, *total.finer)}
    rest = sum(count for name, count in flaws.items() if name not in named) + errors
    return {name: count for name, count in found.items() if count is not None} | {OTHER: int(rest)}


def added(many: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up totals; what none of them counted stays away."""
    total: Counter[str] = Counter()
    for each in many:
        total.update(each)
    return dict(total)
