"""The part of the contract for stores in a database where users have transactions of their own.

**Joining.**  The store writes a job within the caller's transaction: the job exists if and only if that one commits.  The
connection and the driver are the caller's.  So the store does not use them; it yields the statements to run, one after the
other, and is sent the rows of each (`Steps`).  `run_steps` or `arun_steps` runs them.

**Completing.**  A handler works in a transaction of the store (`Completion`), in which its job is settled too: its writes,
the jobs it enqueues and its success are committed together, or none of them is.  The settlement comes last, just before the
commit, so that no lock on the lease is held while the handler works.  Its fence is (id, token, executing) under the owner
that has the lease then: an adoption changes the owner of a running lease and keeps its token.  A commit without an answer
may have happened: `completed` waits for the transaction that still has the lease's row, and then knows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from onward.base.failure import Failure
from onward.contract.values import Enqueued, StoredJob
from onward.errors import TransactionError
from onward.job.envelope import Envelope
from onward.job.lease import Lease
from onward.job.ran_by import RanBy
from onward.job.settlement import Settled, Settlement

__all__ = [
    "Completion",
    "Dialect",
    "Rows",
    "Statement",
    "Steps",
    "Style",
    "Transacts",
    "arun_steps",
    "in_the_way",
    "run_steps",
    "waits_for_itself",
]

T = TypeVar("T")
Step = TypeVar("Step")

Dialect = Literal["postgresql", "mysql", "sqlite"]

# How a driver takes parameters: ``?``; ``%s``; or ``$1``, with lists for arrays.
Style = Literal["qmark", "format", "dollar"]


class Statement(NamedTuple):
    """A statement for the caller's connection."""

    sql: str
    values: Sequence[Any] = ()


Rows = Sequence[Sequence[Any]]
Steps = Generator[Statement, Rows, T]  # yields statements, is sent the rows of each, and returns its result


def run_steps(steps: Generator[Step, Rows, T], run: Callable[[Step], Rows]) -> T:
    """Run the statements, one after the other; return the result of the generator."""
    try:
        statement = next(steps)
        while True:
            statement = steps.send(run(statement))
    except StopIteration as end:
        result: T = end.value
        return result


async def arun_steps(steps: Steps[T], run: Callable[[Statement], Awaitable[Rows]]) -> T:
    """Run the statements without blocking."""
    try:
        statement = next(steps)
        while True:
            statement = steps.send(await run(statement))
    except StopIteration as end:
        result: T = end.value
        return result


# The store that this thread or task must not write to now, because it would wait for itself; None nearly always.
in_the_way: ContextVar[object | None] = ContextVar("onward.in_the_way", default=None)


def waits_for_itself() -> TransactionError:
    """Return the error for a caller that would wait for a lock which it holds itself."""
    return TransactionError(
        "this handler's transaction has the store's one write lock: enqueue with `conn.enqueue(...)`, or after the block "
        "has ended"
    )


class Completion(Protocol):
    """An open transaction for one handler.  It ends with `commit` or `roll_back`."""

    connection: Any  # the driver's own
    exclusive: bool  # whether no other transaction can write until it ends

    def run(self, steps: Callable[[Style], Steps[T]]) -> T:
        """Run statements in the transaction."""
        ...

    def check(self) -> None:
        """Raise if the transaction was rolled back already."""
        ...

    def settle(self, settlement: Settlement) -> Settled:
        """Apply the settlement, if the lease is not lost: the last statement before the commit."""
        ...

    def commit(self) -> None:
        """Commit.  Raises `BackendUnavailable` if it is unknown whether that happened."""
        ...

    def roll_back(self) -> None:
        """Roll back, if the transaction was not committed.  Never raises."""
        ...


@runtime_checkable
class Transacts(Protocol):
    """A store that can take part in transactions."""

    dialect: Dialect
    exclusive: bool  # whether a transaction that writes keeps all others from writing until it ends

    def joining(self, envelopes: Sequence[Envelope], style: Style) -> Steps[list[Enqueued]]:
        """Enqueue within the transaction in which the statements are run.  All or nothing, like `enqueue`."""
        ...

    def showing(self, job_id: str, style: Style) -> Steps[StoredJob | None]:
        """Return a job as the transaction sees it in which the statements are run."""
        ...

    def settle_in(self, settlement: Settlement, style: Style, run: Callable[[Statement], Rows]) -> Settled:
        """Apply a settlement within the transaction in which ``run`` runs statements, if the lease is not lost.

        It is fenced like that of a `Completion`; the transaction, and whether it is committed, are the caller's.
        """
        ...

    def recognizing(self, style: Style) -> Steps[None]:
        """Raise `TransactionError` for a connection to another database than that of the jobs: no worker looks there."""
        ...

    def begin(self, *, at_most: float) -> Completion:
        """Open a transaction for a handler.

        Where only one can write at a time it is rolled back after ``at_most`` seconds.
        """
        ...

    def completed(self, lease: Lease) -> bool:
        """Return whether this lease ended in a success.  Waits for a transaction that is about to settle it."""
        ...

    def note_after_completion(
        self, lease: Lease, failure: Failure, *, duration_ms: int, by: RanBy | None = None
    ) -> bool:
        """Record an error that a run raised after its job was completed.  False if there is no such job any more."""
        ...
