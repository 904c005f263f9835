r"""Notes as they are stored: encrypted where their job is, and signed by the worker or signaller that wrote them.

    onward/1 <key-id> <signature>\n<value>

The signature is over the kind of thing, the job's id, the note's name and the value; an encrypted value is bound to them.
A note that was changed, or copied from another job or name, is rejected: the run fails, and its step is not called again.
"""

from __future__ import annotations

import msgspec

from onward.errors import DecryptionFailed, EnvelopeError, NoteRejected
from onward.job.settlement import Settlement
from onward.security.encryption import Encrypted, Encryption
from onward.security.signing import Signing

__all__ = ["NoteSeals"]

_RESULT = "result"
_HEADER = 512
_replace = msgspec.structs.replace


class NoteSeals:
    """Seals and opens notes with the keys of an application."""

    def __init__(self, signing: Signing, encryption: Encryption) -> None:
        self._signing = signing
        self.encryption = encryption

    def seal(self, job_id: str, queue: str, name: str, value: bytes, *, private: bool) -> bytes:
        """Return a value as it is stored.  ``private``: its job came encrypted."""
        return self._signing.sign_note(
            job_id, queue, name, self.encryption.close_note(job_id, queue, name, value, private)
        )

    def open(self, job_id: str, queue: str, name: str, sealed: bytes) -> bytes:
        """Return the value of a note; raise if it was not sealed for this place by a key that is trusted here."""
        try:
            body = self._signing.open_note(job_id, queue, name, sealed)
            return self.encryption.open_note(job_id, queue, name, body)
        except (EnvelopeError, DecryptionFailed) as error:
            raise NoteRejected(f"the note {name!r} of job {job_id} cannot be trusted: {error}") from error

    def settlement(self, item: Settlement) -> Settlement:
        """Return a settlement as it is stored: encrypted where its job is; of a member of a flow with a signed result."""
        item = self.encryption.settlement(item)
        if item.result is None or not item.lease.member or self._signing.sign is None:
            return item
        envelope = item.lease.envelope
        return _replace(item, result=self._signing.sign_note(envelope.id, envelope.queue, _RESULT, item.result))

    def open_result(self, job_id: str, queue: str, token: int, result: bytes | None) -> bytes | None:
        """Return the result of a member in the clear; raise if no worker that is trusted here has stored it."""
        if result is None:
            return None
        try:
            if (
                b"\n" in result[:_HEADER] or self._signing.required
            ):  # an encrypted result without signature has one line
                result = self._signing.open_note(job_id, queue, _RESULT, result)
            found = self.encryption.read_result(job_id, queue, token, result)
        except EnvelopeError as error:
            raise NoteRejected(f"the result of job {job_id} cannot be trusted: {error}") from error
        if isinstance(found, Encrypted):
            raise DecryptionFailed(f"the result of job {job_id} is {found}: it can be read with that key")
        return found
