"""Notes: a hash for each job, as `scripts/lib/notes.lua` says."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from onward.backend import Audit, Lease, Note, Signalled
from onward.backends.damage import set_aside_and_repeat
from onward.backends.redis import audit as trail
from onward.backends.redis.layout import STATES
from onward.backends.redis.showing import shown_name

__all__ = ["RedisNotes", "packed_note", "read_notes"]

_INSTANT = 8  # bytes before a value


class RedisNotes:
    """The `Notes` half of the backend."""

    @abstractmethod
    def _run(self, name: str, *arguments: Any, beside: Sequence[bytes] = ()) -> Any: ...

    @abstractmethod
    def _now(self) -> int | None: ...

    @set_aside_and_repeat
    def note(self, lease: Lease, name: str, value: bytes) -> bool:
        fence = lease.envelope.id, lease.token, lease.owner
        return bool(self._run("note", self._now(), *fence, name, beside=[value]))

    @set_aside_and_repeat
    def notes(self, job_id: str) -> Sequence[Note]:
        return read_notes(self._run("notes", job_id))

    @set_aside_and_repeat
    def signal(
        self,
        job_id: str,
        name: str,
        value: bytes,
        *,
        again: bool = False,
        at_most: tuple[int, int] = (1000, 4 << 20),
        audit: Audit = (),
    ) -> Signalled:
        given = (job_id, name, again, *at_most, *trail.given(audit))
        state, stored, woken, full = self._run("signal", self._now(), *given, beside=[value])
        return Signalled(state=STATES.get(state), stored=bool(stored), woken=bool(woken), full=bool(full))


def read_notes(found: Sequence[bytes]) -> list[Note]:
    """Return notes from their names and what is noted, one after the other; in the order of the names."""
    return [
        Note(name=shown_name(name), value=raw[_INSTANT:], at=int.from_bytes(raw[:_INSTANT], "big"))
        for name, raw in sorted(zip(found[::2], found[1::2], strict=True))
    ]


def packed_note(note: Note) -> bytes:
    """Return what is noted under the name of a note."""
    return note.at.to_bytes(_INSTANT, "big") + note.value
