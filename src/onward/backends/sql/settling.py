"""What the contract says of settlements and no database decides: the evidence, what goes on record, who is taken back."""

from __future__ import annotations

from typing import NamedTuple

from onward.backend import Reaped
from onward.base.failure import Failure
from onward.job.envelope import Sealed
from onward.job.lease import GONE, LEASE_LOST, UNEXPLAINED, UNKNOWN_CAUSE, Lease, Settled, Settlement, already_applied
from onward.job.states import TARGETS, State, state_named

__all__ = ["Lost", "because", "judge", "on_record", "why"]


def judge(settlement: Settlement, move: str | None, went_to: str, finished_as: str | None, traced: bool) -> Settled:
    """What became of a settlement whose fence matches nothing: the record first, then the finished job."""
    if move is not None:
        return already_applied(state_named(went_to)) if move == settlement.move else LEASE_LOST
    if not traced:
        return GONE
    turned = finished_as == State.CANCELLED and settlement.move != "ack"
    if finished_as is not None and (turned or finished_as == TARGETS[settlement.move]):
        return already_applied(state_named(finished_as))
    return LEASE_LOST


def on_record(settlement: Settlement) -> Failure | None:
    """What goes on record: every failure, every nack, every crash."""
    if settlement.move == "crashed":
        return Failure("Crash", settlement.reason or UNKNOWN_CAUSE)
    return settlement.failure or (UNEXPLAINED if settlement.move == "nack" else None)


def because(settlement: Settlement) -> str | None:
    return settlement.reason or (UNKNOWN_CAUSE if settlement.move == "crashed" else None)


def why(owner: str | None, cause: str | None) -> str:
    """Why leases are taken back, if nobody says."""
    return cause or ("its session expired" if owner is None else "its process died")


class Lost(NamedTuple):
    """A lease that nobody has."""

    id: str
    token: int
    owner: str
    queue: str
    job: str
    crashes: int

    def settlement(self, cause: str, *, crashed: bool) -> Settlement:
        """How it is given back: as crashed or as released."""
        sealed = Sealed(self.id, self.queue, b"")
        lease = Lease(envelope=sealed, token=self.token, owner=self.owner, expires_at=0, claimed_at=0)
        return Settlement.crashed(lease, cause) if crashed else Settlement.release(lease)

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
