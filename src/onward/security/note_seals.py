r"""Notes as they are stored: encrypted where their job is, and signed by the worker or signaller that wrote them.

    onward/1 <key-id> <signature>\n<value>

The signature is over the kind of thing, the job's id, the note's name and the value; an encrypted value is bound to them.
A note that was changed, or copied from another job or name, is rejected: the run fails, and its step is not called again.
"""

from __future__ import annotations

from onward.errors import DecryptionFailed, EnvelopeError, NoteRejected
from onward.security.encryption import Encryption
from onward.security.signing import Signing

__all__ = ["NoteSeals"]


class NoteSeals:
    """Seals and opens notes with the keys of an application."""

    def __init__(self, signing: Signing, encryption: Encryption) -> None:
        self._signing = signing
        self._encryption = encryption

    def seal(self, job_id: str, queue: str, name: str, value: bytes, *, private: bool) -> bytes:
        """Return a value as it is stored.  ``private``: its job came encrypted."""
        return self._signing.sign_note(
            job_id, queue, name, self._encryption.close_note(job_id, queue, name, value, private)
        )

    def open(self, job_id: str, queue: str, name: str, sealed: bytes) -> bytes:
        """Return the value of a note; raise if it was not sealed for this place by a key that is trusted here."""
        try:
            body = self._signing.open_note(job_id, queue, name, sealed)
            return self._encryption.open_note(job_id, queue, name, body)
        except (EnvelopeError, DecryptionFailed) as error:
            raise NoteRejected(f"the note {name!r} of job {job_id} cannot be trusted: {error}") from error
