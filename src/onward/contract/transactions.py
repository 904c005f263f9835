"""The part of the contract for stores that live in a database where users have transactions of their own.

**Joining.**  A job is stored within the caller's transaction: it exists if and only if that one commits.  The connection
and the driver are the caller's.  So the store does not use them; it yields the statements to run, one after the other, and
is given the rows of each (`Steps`).  The caller of the store runs them, by `run_steps` or `arun_steps`.

**Completing.**  A handler works in a transaction of ours (`Completion`), in which its job is settled too: its writes, the
jobs it enqueues and its success are committed together, or nothing is.  The settlement comes last, just before the
commit, so that no lock on the lease is held while the handler works.  Its fence is (id, token, executing) under whichever
owner has the lease by then: an adoption changes the owner of a running lease and keeps its token.  A commit that was not
answered may have happened: `completed` waits for the transaction that still has the lease's row, and then knows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from onward.base.failure import Failure
from onward.contract.values import Enqueued
from onward.errors import TransactionError
from onward.job.envelope import Envelope
from onward.job.lease import Lease
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


# The store that nothing else may be written to from here now, because it would wait for itself; None nearly always.
in_the_way: ContextVar[object | None] = ContextVar("onward.in_the_way", default=None)


def waits_for_itself() -> TransactionError:
    """Return the error of a caller that would wait for a lock which it holds itself: to be raised at once instead."""
    return TransactionError(
        "this handler is in its transaction, which has the store's one write lock: what it wants to write there "
        "goes through `conn.enqueue(...)`, or waits until the block has ended"
    )


class Completion(Protocol):
    """An open transaction for one handler.  It ends with `commit` or `roll_back`."""

    connection: Any  # the driver's own
    exclusive: bool  # whether no other transaction can write until it ends

    def run(self, steps: Callable[[Style], Steps[T]]) -> T:
        """Run statements in it."""
        ...

    def check(self) -> None:
        """Raise if it has come to nothing already."""
        ...

    def settle(self, settlement: Settlement) -> Settled:
        """Apply it, if the lease is not lost: the last thing before the commit."""
        ...

    def commit(self) -> None:
        """Commit; raises `BackendUnavailable` if it is unknown whether that happened."""
        ...

    def roll_back(self) -> None:
        """Undo it, if it was not committed.  Never raises."""
        ...


@runtime_checkable
class Transacts(Protocol):
    """A store that can take part in transactions."""

    dialect: Dialect

    def joining(self, envelopes: Sequence[Envelope], style: Style) -> Steps[list[Enqueued]]:
        """Enqueue within the transaction in which the statements are run.  All or nothing, like `enqueue`."""
        ...

    def recognizing(self, style: Style) -> Steps[None]:
        """Refuse a connection to another database than that of the jobs: no worker would find a job there."""
        ...

    def begin(self, *, at_most: float) -> Completion:
        """Open a transaction for a handler.

        Where only one can write at a time it is rolled back after ``at_most`` seconds.
        """
        ...

    def completed(self, lease: Lease) -> bool:
        """Whether this lease ended in a success.  Waits for a transaction that is about to say so."""
        ...

    def note_after_completion(self, lease: Lease, failure: Failure, *, duration_ms: int) -> bool:
        """Put an error on record that a run met after its job was completed.  False if there is no such job any more."""
        ...
