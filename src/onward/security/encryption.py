"""Which parts of a job are encrypted, and in which form they are stored.

    what                            written as                                      bound to queue and
    payload                         "<base64>", and `enc` says "A256GCM <key id>"   id, job
    result                          onward/1 A256GCM <key id> <base64>              id, delivery
    error message and traceback     the same                                        id, delivery
    note of a step or signal        the same                                        id, name
    texts of the handler: the       the same                                        id
      reason of a discard, progress
    unique and idempotency keys     a keyed hash                                    -

An application whose setting is on encrypts what it writes.  One whose setting is off encrypts only what it writes about jobs
that came encrypted.  A process with the key and `cryptography` decrypts, whatever the setting; others see a marker.

A worker runs a job that is not encrypted, too: which program wrote it is a question of signatures.
"""

from __future__ import annotations

import re

import msgspec

from onward.base.failure import Failure
from onward.base.fingerprint import without_text
from onward.errors import DecryptionFailed
from onward.job.envelope import Encrypt, Letter
from onward.job.lease import Lease
from onward.job.settlement import Settlement
from onward.security.cipher import ALGORITHM, Cipher
from onward.security.key_ring import KeyRing

__all__ = ["Encrypted", "Encryption"]

_PAYLOAD, _RESULT, _MESSAGE, _TRACEBACK, _REASON, _NOTE = "payload", "result", "message", "traceback", "reason", "note"
_STEP = "step"  # a note is what goes with progress, here
_START = f"onward/1 {ALGORITHM} "
_WRITTEN = re.compile(r"onward/1 ([A-Z0-9]{1,32}) ([A-Za-z0-9][A-Za-z0-9._-]{0,63}) ([A-Za-z0-9+/]{38,}={0,2})")
_SIGNATURE = re.compile(rb"onward/1 [A-Za-z0-9][A-Za-z0-9._-]{0,63} [A-Za-z0-9+/]{43}=\n")  # before a member's result
_replace = msgspec.structs.replace


class Encrypted(str):
    """The marker of a text that cannot be decrypted here: ``<encrypted with key 2026-11>``."""

    __slots__ = ()


class Encryption:
    """Encrypts and decrypts the parts of an application's jobs."""

    def __init__(self, ring: KeyRing | None, namespace: str, *, enabled: bool) -> None:
        self._namespace = namespace
        self.enabled = enabled
        self.adopt(ring)
        if enabled:
            self._cipher.refuse_without_key()

    def adopt(self, ring: KeyRing | None) -> None:
        """Encrypt and decrypt with these keys from now on."""
        self._cipher = Cipher(ring, self._namespace)

    # Payloads and keys

    def close(self, letter: Letter, *, private: bool = False) -> Letter:
        """Return the letter as it travels.  ``private``: encrypt it whatever the setting, where that is possible."""
        if not (self.enabled or (private and self._cipher.is_able)):
            return letter
        encrypt = self._payloads(letter)
        return _replace(letter, payload=msgspec.Raw(encrypt(letter.id, bytes(letter.payload))), enc=self._enc(letter))

    def form(self, letter: Letter) -> tuple[Letter, Encrypt | None]:
        """Do the same for a letter without id and payload: return it with the function that encrypts a payload."""
        if not self.enabled:
            return letter, None
        return _replace(letter, enc=self._enc(letter)), self._payloads(letter)

    def open(self, letter: Letter) -> Letter:
        """Return the letter with its payload in the clear; `enc` still says that it was encrypted.  Raises if it cannot."""
        if letter.enc is None:
            return letter
        algorithm, _, key_id = letter.enc.partition(" ")
        box = self._cipher.opening(algorithm, key_id, _PAYLOAD, letter.queue)
        written = bytes(letter.payload)
        quoted = written[:1] == written[-1:] == b'"' and len(written) > 1
        return _replace(letter, payload=msgspec.Raw(box.open(written[1:-1] if quoted else b"", letter.id, letter.job)))

    def key(self, kind: str, owner: str, key: str | None) -> str | None:
        """Return a unique or an idempotency key as it travels."""
        return self._cipher.digest(kind, owner, key) if self.enabled and key is not None else key

    def _payloads(self, letter: Letter) -> Encrypt:
        box, job = self._cipher.closing(_PAYLOAD, letter.queue), letter.job
        return lambda job_id, payload: b'"%b"' % box.close(payload, job_id, job)

    def _enc(self, letter: Letter) -> str:
        return f"{ALGORITHM} {self._cipher.closing(_PAYLOAD, letter.queue).key_id}"

    # Written by workers

    def settlement(self, item: Settlement) -> Settlement:
        """Return a settlement as it is stored.  Texts of Onward itself stay readable without a key."""
        lease = item.lease
        if not (self.enabled or lease.private) or (item.result is None and item.failure is None and not item.quotes):
            return item
        result, failure, reason, spent = item.result, item.failure, item.reason, item.spent
        if result is not None:
            result = self._close(lease, _RESULT, result, str(lease.token)).encode()
        if failure is not None and (item.ran or item.quotes):
            failure = self.failure(lease, failure)
        if item.quotes:
            reason, spent = self._words(lease, _REASON, reason), self._words(lease, _REASON, spent)
        return _replace(item, result=result, failure=failure, reason=reason, spent=spent)

    def failure(self, lease: Lease, failure: Failure) -> Failure:
        """Return a failure as it is stored: the error's class stays readable without a key."""
        if not (self.enabled or lease.private):
            return failure
        token = str(lease.token)
        return Failure(
            failure.kind,
            self._words(lease, _MESSAGE, failure.message, token) or "",
            self._words(lease, _TRACEBACK, failure.traceback, token) or "",
            without_text(failure.fingerprint, failure.kind, failure.message),
        )

    def note(self, lease: Lease, note: str | None) -> str | None:
        """Return the note of a progress report as it is stored."""
        return self._words(lease, _NOTE, note) if self.enabled or lease.private else note

    def close_note(self, job_id: str, queue: str, name: str, value: bytes, private: bool) -> bytes:
        """Return the value of a step's or signal's note as it is stored."""
        if not (self.enabled or private):
            return value
        self._cipher.refuse_without_key()  # who signals a job that came encrypted may have none
        box = self._cipher.closing(_STEP, queue)
        return f"{_START}{box.key_id} {box.close(value, job_id, name).decode()}".encode()

    def open_note(self, job_id: str, queue: str, name: str, value: bytes) -> bytes:
        """Return the value of a step's or signal's note in the clear.  Raises if that cannot be."""
        if not value.startswith(b"onward/"):  # which no JSON does
            return value
        written = _WRITTEN.fullmatch(value.decode("latin-1"))
        if written is None:
            raise DecryptionFailed("it is not what Onward writes")
        algorithm, key_id, ciphertext = written.groups()
        return self._cipher.opening(algorithm, key_id, _STEP, queue).open(ciphertext.encode(), job_id, name)

    def _words(self, lease: Lease, purpose: str, text: str | None, *place: str) -> str | None:
        return self._close(lease, purpose, text.encode("utf-8", "surrogatepass"), *place) if text else text

    def _close(self, lease: Lease, purpose: str, clear: bytes, *place: str) -> str:
        box = self._cipher.closing(purpose, lease.envelope.queue)
        return f"{_START}{box.key_id} {box.close(clear, lease.envelope.id, *place).decode()}"

    # Read, with or without a key

    def read_result(self, job_id: str, queue: str, token: int, result: bytes | None) -> bytes | Encrypted | None:
        if result is None or not result.startswith(b"onward/"):  # which no JSON does
            return result
        if (signature := _SIGNATURE.match(result)) is not None:
            result = result[signature.end() :]
            if not result.startswith(b"onward/"):
                return result
        return self._read(result.decode("latin-1"), _RESULT, queue, job_id, str(token)) or _marker("?")

    def read_failure(self, job_id: str, queue: str, token: int, failure: Failure) -> Failure:
        place = (job_id, str(token))
        return Failure(
            failure.kind,
            self._read_text(failure.message, _MESSAGE, queue, *place),
            self._read_text(failure.traceback, _TRACEBACK, queue, *place),
            failure.fingerprint,
        )

    def read_reason(self, job_id: str, queue: str, reason: str | None) -> str | None:
        return None if reason is None else self._read_text(reason, _REASON, queue, job_id)

    def read_note(self, job_id: str, queue: str, note: str | None) -> str | None:
        return None if note is None else self._read_text(note, _NOTE, queue, job_id)

    def marker(self, letter: Letter) -> str:
        """Return the marker of a payload that cannot be decrypted."""
        return str(_marker((letter.enc or "").partition(" ")[2]))

    def is_encrypted(self, text: str) -> bool:
        return _WRITTEN.fullmatch(text) is not None

    def _read_text(self, text: str, purpose: str, queue: str, *place: str) -> str:
        found = self._read(text, purpose, queue, *place)
        return found.decode("utf-8", "surrogatepass") if isinstance(found, bytes) else str(found or text)

    def _read(self, text: str, purpose: str, queue: str, *place: str) -> bytes | Encrypted | None:
        """Decrypt a text; None if it is not encrypted."""
        if not text.startswith("onward/") or (written := _WRITTEN.fullmatch(text)) is None:
            return None
        algorithm, key_id, ciphertext = written.groups()
        try:
            return self._cipher.opening(algorithm, key_id, purpose, queue).open(ciphertext.encode(), *place)
        except DecryptionFailed:
            return _marker(key_id)


def _marker(key_id: str) -> Encrypted:
    return Encrypted(f"<encrypted with key {key_id.encode('unicode_escape').decode():.64}>")
