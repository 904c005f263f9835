"""Giving back leases, the part that all SQL stores share."""

from __future__ import annotations

from typing import NamedTuple

from onward.backend import Reaped
from onward.job.envelope import Sealed
from onward.job.lease import Lease
from onward.job.settlement import Settlement
from onward.job.states import State

__all__ = ["FenceMismatch", "Lost", "why"]


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

    def settlement(self, cause: str, *, crashed: bool) -> Settlement:
        """Return the settlement that gives the lease back: as crashed or as released."""
        sealed = Sealed(self.id, self.queue, b"")
        lease = Lease(envelope=sealed, token=self.token, owner=self.owner, expires_at=0, claimed_at=0)
        return Settlement.given_back(lease, cause, started=crashed)

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
