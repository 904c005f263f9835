r"""What a job is to the server: bytes.  A line of ours with the counters, then the sealed bytes as they came.

    onward-beanstalk/1 {"id": …, "attempts": 2, …}\n<sealed bytes>

The server counts reservations, releases and time-outs of a job, but forgets them when it restarts, and a job that is put
back is a new one to it.  So what must last is in the line, and is written anew whenever the job is.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from onward.backends.broker.header import Header, NotOurs, cut
from onward.base.failure import Failure

__all__ = ["ROOM", "BodyHeader", "NotOurs", "decode", "encode"]

_MAGIC = b"onward-beanstalk/1 "
# The line grows when a job is put back; what was accepted must still fit then.
ROOM = 2048


class BodyHeader(Header, frozen=True, omit_defaults=True, kw_only=True):
    """With what only this server needs to be told again."""

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
    """The body.  What explains a death is cut until it fits: the job itself never is."""
    if header.spent is not None or header.reason is not None:
        header = msgspec.structs.replace(header, spent=cut(header.spent), reason=cut(header.reason))
    body = _MAGIC + _encode(header) + b"\n" + data
    if len(body) > limit and header.failure is not None:
        body = _MAGIC + _encode(msgspec.structs.replace(header, failure=None)) + b"\n" + data
    return body


def decode(body: bytes) -> tuple[BodyHeader, bytes]:
    if not body.startswith(_MAGIC):
        raise NotOurs("it does not begin as a job of Onward does")
    end = body.find(b"\n")
    try:
        return _decode(body[len(_MAGIC) : end]), body[end + 1 :]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotOurs(str(error)) from None
