"""What may be shown of a job's arguments, and why not more."""

from __future__ import annotations

from onward.client.record import JobRecord
from onward.errors import EnvelopeError
from onward.job.envelope import Sealed, open_sealed

__all__ = ["hides_arguments", "unreadable"]


def hides_arguments(record: JobRecord) -> bool:
    """Return whether arguments would be shown by a process that cannot know which of them are secret."""
    return not record.is_defined and bool(record.payload) and record.reveal() is not None


def unreadable(record: JobRecord) -> str | None:
    """Return why the sealed bytes of a job cannot be read; None if they can."""
    if not record.raw:
        return "only a tombstone is left"
    try:
        open_sealed(Sealed(record.id, record.queue, record.raw))
    except EnvelopeError as error:
        return str(error)
    return None
