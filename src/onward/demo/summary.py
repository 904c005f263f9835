"""What became of every job of the demo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.base.wording import counted
from onward.cli.table import StyledLine
from onward.job.states import FINISHED, State

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.client.record import JobRecord

__all__ = ["Summary", "summarise"]

_PAGE = 500


class DeadLetter(NamedTuple):
    name: str
    id: str
    reason: str


@dataclass(slots=True)
class Summary:
    seconds: float
    enqueued: int
    duplicates: int  # that were refused by a unique key
    states: Counter[State] = field(default_factory=Counter)
    retried: int = 0  # jobs that took more than one run
    failed_runs: int = 0
    crashes: int = 0
    bystanders: int = 0  # jobs that were in a process which another one killed, and went on in another
    dead_letters: list[DeadLetter] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @property
    def waiting(self) -> int:
        return sum(number for state, number in self.states.items() if state not in FINISHED)

    def note(self, record: JobRecord) -> None:
        self.states[record.state] += 1
        self.retried += record.attempts > 1
        self.failed_runs += len(record.errors) - record.crashes
        self.crashes += record.crashes
        self.bystanders += record.crashes > 0 and record.state is not State.DISCARDED
        if record.state is State.DISCARDED:
            self.dead_letters.append(DeadLetter(record.name, record.id, record.reason or ""))

    def as_data(self) -> dict[str, Any]:
        """Return the same for machines."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        letters = [letter._asdict() for letter in self.dead_letters]
        return {**plain, "waiting": self.waiting, "dead_letters": letters}

    def lines(self) -> Iterator[StyledLine]:
        """Yield the lines for people."""
        yield _row("enqueued", self.enqueued, f"and {self.duplicates} refused: a live job held their unique key")
        yield _row("completed", self.states[State.COMPLETED], f"in {self.seconds:.1f} s", "green")
        yield _row(
            "retried", self.retried, f"took more than one run; {counted(self.failed_runs, 'run')} failed", "yellow"
        )
        yield _row(
            "crashes", self.crashes, f"a process died under them; {counted(self.bystanders, 'bystander')}", "yellow"
        )
        yield _row("cancelled", self.states[State.CANCELLED], "", "magenta")
        yield _row("waiting", self.waiting, "in the store, for the next worker" if self.waiting else "", "cyan")
        yield _row(
            "dead letters", len(self.dead_letters), "kept, with their reasons:" if self.dead_letters else "", "red"
        )
        for name, job_id, reason in self.dead_letters:
            yield [("    ", ""), (name, "bold"), (f"  {job_id}  ", "dim"), (reason, "red")]
        yield _row("lost", len(self.lost), "" if self.lost else "every job that was accepted is accounted for", "bold")


def _row(label: str, number: int, note: str, style: str = "bold") -> StyledLine:
    return [(f"{label:<13}", "dim"), (f"{number:>7,}", style if number else ""), (f"   {note}".rstrip(), "dim")]


def summarise(app: Onward, *, ids: AbstractSet[str], duplicates: int, seconds: float) -> Summary:
    """Look for every job that was accepted."""
    summary = Summary(seconds, len(ids), duplicates)
    found: set[str] = set()
    for page in _pages(app):
        for record in page:
            if record.id in ids:
                found.add(record.id)
                summary.note(record)
    summary.lost = sorted(ids - found)
    return summary


def _pages(app: Onward) -> Iterator[Sequence[JobRecord]]:
    after = None
    while page := app.list(limit=_PAGE, after=after):
        yield page
        after = page[-1].id
