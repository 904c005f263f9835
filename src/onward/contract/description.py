"""What a worker says of itself when it opens its session: which queues it serves, which jobs it knows.

It is written by `open_session` and never changed, and counts while its session lives.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from onward.job.ran_by import RanBy

__all__ = ["LARGEST_DESCRIPTION", "WorkerDescription", "ran_by"]

LARGEST_DESCRIPTION = 16 * 1024  # bytes


class WorkerDescription(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A worker in its own words.  Lists that made it too large are None: they are not known."""

    queues: tuple[str, ...]  # names and patterns, in their order
    weights: Mapping[str, int] = {}  # none: the queues are served in strict order
    per_process: Mapping[str, int] = {}  # how many of single queues it runs at once
    allowed: Mapping[str, tuple[str, ...]] | None = {}  # the only jobs of these queues that it runs
    denied: tuple[str, ...] = ()  # handlers that run only on queues which allow them
    concurrency: int = 1
    jobs: tuple[str, ...] | None = None  # the names and aliases that it knows
    build: str = ""
    keys: tuple[str, ...] = ()  # ids of the keys that it verifies with, when it started
    key_file: bool = False  # whether they come from a file, which it reads again when it changes
    supervisor: int = 0  # the process that started it; 0: it is a program with a worker inside
    samples: bool = False  # whether what it counts is sent with renewals
    started: int = 0

    @property
    def strict(self) -> bool:
        """Whether it serves a queue only while those before it have nothing due."""
        return not self.weights

    def encoded(self) -> bytes:
        """Return it as bytes, without the longest lists if it were larger than a store keeps."""
        for without in ((), ("jobs",), ("jobs", "allowed")):
            data = msgspec.json.encode(msgspec.structs.replace(self, **dict.fromkeys(without)))
            if len(data) <= LARGEST_DESCRIPTION:
                return data
        return b""

    @classmethod
    def decoded(cls, data: bytes) -> WorkerDescription | None:
        """Return a description from its bytes; None if there is none, or none that can be read."""
        try:
            return _decode(data) if data else None
        except msgspec.MsgspecError:
            return None


def ran_by(host: str, pid: int, description: bytes) -> RanBy | None:
    """Return who ran the jobs of a session; None if it has said nothing of itself."""
    if not host and not pid:
        return None
    described = WorkerDescription.decoded(description)
    return RanBy(host, pid, "" if described is None else described.build)


_decode = msgspec.json.Decoder(WorkerDescription).decode
