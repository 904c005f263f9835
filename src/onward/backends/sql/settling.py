"""Giving back leases, the part that all SQL stores share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from onward.backend import Reaped
from onward.base.logs import get_logger
from onward.errors import BackendRefused
from onward.job.envelope import Sealed
from onward.job.lease import Lease
from onward.job.ran_by import RanBy
from onward.job.settlement import Settlement
from onward.job.states import State

__all__ = ["FenceMismatch", "Lost", "singly", "why"]

_logger = get_logger("onward.backend")


def why(owner: str | None, cause: str | None) -> str:
    """Return why leases are given back: the cause that the caller names, or the usual one."""
    return cause or ("its session expired" if owner is None else "its process died")


class FenceMismatch(Exception):
    """A settlement of a batch matches no lease: the transaction is rolled back, and each settlement is applied by itself."""


class Lost(NamedTuple):
    """A lease whose session is gone."""

    id: str
    token: int
    owner: str
    queue: str
    job: str
    crashes: int
    member: int = 0  # 1: of a flow
    by: RanBy | None = None  # the worker of the session

    def settlement(self, cause: str, *, crashed: bool, member: bool = False) -> Settlement:
        """Return the settlement that gives the lease back: as crashed or as released."""
        sealed = Sealed(self.id, self.queue, b"")
        member = member or bool(self.member)
        lease = Lease(envelope=sealed, token=self.token, owner=self.owner, expires_at=0, claimed_at=0, member=member)
        return Settlement.given_back(lease, cause, started=crashed, by=self.by)

    def reaped(self, to: State, cause: str, *, crashed: bool) -> Reaped:
        return Reaped(
            id=self.id,
            queue=self.queue,
            job=self.job,
            token=self.token,
            to=to,
            cause=cause,
            crashed=crashed,
            crashes=self.crashes + crashed,
        )


Give = Callable[[Any, Sequence[Lost]], list[Reaped]]


def singly(
    lost: Sequence[Lost], write: Callable[[Callable[[Any], list[Reaped]]], list[Reaped]], give: Give
) -> list[Reaped]:
    """Give each back in a transaction of its own, where the store refuses to take back all of them together.

    One that is refused stays an orphan for the next sweep.  Their sessions were ended before; one that was opened again
    since has its leases.
    """

    def alone(tx: Any, lease: Lost) -> list[Reaped]:
        return [] if tx.ask("lock_session", owner=lease.owner).rows() else give(tx, [lease])

    reaped: list[Reaped] = []
    for lease in lost:
        try:
            reaped += write(lambda tx, lease=lease: alone(tx, lease))  # type: ignore[misc]
        except BackendRefused as error:
            _logger.exception("job %s cannot be given back: %s", lease.id, str(error).split("\n", 1)[0])
    return reaped
