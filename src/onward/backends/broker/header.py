"""The counters of a job in a broker.  They travel beside its sealed bytes; the backend writes them with every copy.

A broker counts deliveries, but a job that is put back is a new one to it.  So the header has all counters that must last,
and a claim adds the broker's own count to them.
"""

from __future__ import annotations

from typing import Annotated, Any, Self, TypeVar

import msgspec

from onward.base.wording import counted
from onward.job.envelope import Envelope, Sealed
from onward.job.lease import LARGEST_COUNT, LAST_INSTANT, Lease
from onward.job.settlement import Fate, Leased, Settlement, fate

__all__ = ["CRASHED", "Count", "Header", "NotOurs", "cut", "lease_of", "revived", "settled"]

CRASHED = "its process died, or did not renew it in time"
_REASON = 400  # characters: the reason of a discard must not make a job too large to be stored


# A header is not signed.  Onward writes no value outside these bounds; and a broker, its driver or the companion store would
# refuse it: one such message would be delivered for ever, and end every session that receives it.
_Id = Annotated[str, msgspec.Meta(max_length=255, pattern=r"^[^\x00-\x1f]+$")]
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_COUNT)]
_Instant = Annotated[int, msgspec.Meta(ge=0, le=LAST_INSTANT)]


class NotOurs(ValueError):
    """A job or message that was not written by Onward."""


class Header(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The counters and options of a job that the broker does not keep."""

    id: _Id
    job: str
    enqueued_at: _Instant
    max_crashes: Count
    expires_at: _Instant | None = None
    attempts: Count = 0
    crashes: Count = 0
    interruptions: Count = 0
    delivery: Count = 0
    waits: Count = 0
    parked_since: _Instant | None = None
    spent: str | None = None

    @classmethod
    def of(cls, envelope: Envelope, **more: Any) -> Self:
        return cls(
            id=envelope.id,
            job=envelope.job,
            enqueued_at=envelope.enqueued_at,
            max_crashes=envelope.max_crashes,
            expires_at=envelope.expires_at,
            **more,
        )

    @property
    def crashed_too_often(self) -> str:
        """The reason why a job with too many crashes is spent."""
        return self.spent or f"crashed {counted(self.crashes, 'time')}: {CRASHED}"


H = TypeVar("H", bound=Header)


def settled(settlement: Settlement, header: H, now: int) -> tuple[Fate, H]:
    """Return the fate of a settled job, and its header after that."""
    # No broker can be asked to cancel a running job.
    leased = Leased(None, header.crashes, header.max_crashes, header.waits, header.parked_since, header.spent)
    what = fate(settlement, leased, now)
    return what, msgspec.structs.replace(
        header,
        attempts=header.attempts + what.attempts,
        crashes=header.crashes + what.crashes,
        interruptions=header.interruptions + what.interruptions,
        waits=what.waits,
        parked_since=what.parked_since,
        spent=what.spent,
    )


def revived(header: H) -> H:
    """Return the header of a replayed dead job: its counters start again, and the deliveries go on."""
    return msgspec.structs.replace(
        header, attempts=0, crashes=0, interruptions=0, waits=0, parked_since=None, spent=None
    )


def lease_of(header: Header, sealed: Sealed, owner: str, **times_and_receipt: Any) -> Lease:
    return Lease(
        envelope=sealed,
        token=header.delivery,
        owner=owner,
        attempts=header.attempts,
        crashes=header.crashes,
        interruptions=header.interruptions,
        waits=header.waits,
        parked_since=header.parked_since,
        spent=header.spent,
        **times_and_receipt,
    )


def cut(text: str | None, limit: int = _REASON) -> str | None:
    """Return a text, cut to the limit.

    >>> cut("because of that", 8)
    'because…'
    """
    return text if text is None or len(text) <= limit else text[: limit - 1] + "…"
