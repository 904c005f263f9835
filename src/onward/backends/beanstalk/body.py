r"""The body of a job on the server: a line with Onward's counters, then the sealed bytes as they came.

    onward-beanstalk/1 {"id": …, "attempts": 2, …}\n<sealed bytes>

The server counts reservations, releases and time-outs of a job, but forgets them when it restarts, and a job that is put
back is a new one to it.  So the line has all counters that must last, and the backend writes it with every copy of the job.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from onward.backends.broker.header import Header, NotOurs, cut
from onward.base.failure import Failure

__all__ = ["ROOM", "BodyHeader", "NotOurs", "decode", "encode"]

_MAGIC = b"onward-beanstalk/1 "
# The line grows when a job is put back; an accepted job must still fit then.
ROOM = 2048


class BodyHeader(Header, frozen=True, omit_defaults=True, kw_only=True):
    """The header with the fields that only this server needs again."""

    priority: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31)] = 0
    ttr: Annotated[int, msgspec.Meta(ge=1, le=2**32 - 1)] = 120
    # Of a dead job only:
    reason: str | None = None
    ended_at: int | None = None
    failure: Failure | None = None

    @property
    def dead(self) -> bool:
        return self.ended_at is not None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(BodyHeader).decode


def encode(header: BodyHeader, data: bytes, limit: int) -> bytes:
    """Return the body.  Cuts the reason and the failure of a dead job until it fits, never the job itself."""
    if header.spent is not None or header.reason is not None:
        header = msgspec.structs.replace(header, spent=cut(header.spent), reason=cut(header.reason))
    body = _MAGIC + _encode(header) + b"\n" + data
    if len(body) > limit and header.failure is not None:
        body = _MAGIC + _encode(msgspec.structs.replace(header, failure=None)) + b"\n" + data
    return body


def decode(body: bytes) -> tuple[BodyHeader, bytes]:
    if not body.startswith(_MAGIC):
        raise NotOurs("the body does not begin like a job of Onward")
    end = body.find(b"\n")
    try:
        return _decode(body[len(_MAGIC) : end]), body[end + 1 :]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotOurs(str(error)) from None
