"""Where a run took place: the host, the process and the build of the worker."""

from __future__ import annotations

from functools import lru_cache

import msgspec

__all__ = ["RanBy"]


class RanBy(msgspec.Struct, frozen=True, array_like=True):
    """The worker that ran a job."""

    host: str
    pid: int
    build: str = ""

    def encoded(self) -> str:
        """Return it as the text that stores keep.

        >>> RanBy("web-3", 4711, "2026.11").encoded()
        '["web-3",4711,"2026.11"]'
        """
        return _encoded(self)

    @classmethod
    def decoded(cls, text: str | None) -> RanBy | None:
        """Return a worker from its text; None if there is none, or none that can be read."""
        try:
            return _decode(text) if text else None
        except (msgspec.MsgspecError, UnicodeEncodeError):
            return None


@lru_cache(maxsize=64)  # a batch of failures has the same worker in all of its records
def _encoded(worker: RanBy) -> str:
    return msgspec.json.encode(worker).decode()


_decode = msgspec.json.Decoder(RanBy).decode
