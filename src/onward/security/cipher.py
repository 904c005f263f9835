r"""Encryption with the keys that sign: one algorithm to a version, a key for each queue and purpose, all bound to its place.

    key         =  HKDF-SHA256(secret; "onward/1 encryption", namespace, purpose, queue)
    ciphertext  =  nonce, AES-256-GCM(key; nonce, clear text; version, purpose, key id, namespace, queue, place…)

The nonce is 96 random bits.  The place (a job's id, its name, the number of a delivery) is not stored with the ciphertext:
the program that decrypts gives the place where it found the text, and a text from another place does not decrypt.  All
parts have their length before them, so that no two lists of parts are the same bytes.  Ciphertext is base64 in its one
canonical form.

The newest key encrypts; every active one decrypts.  `cryptography` is imported when needed: most applications do without it.
"""

from __future__ import annotations

import os
import re
from binascii import Error, a2b_base64, b2a_base64
from typing import TYPE_CHECKING

from onward.base.lazy import hmac
from onward.errors import DecryptionFailed, DecryptionKeyMissing, EncryptionUnavailable
from onward.security.key_ring import Key, KeyRing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["ALGORITHM", "Box", "Cipher"]

ALGORITHM = "A256GCM"
_VERSION = b"onward/1 encryption"
_NONCE = 12  # bytes
_MOST_BOXES = 4096  # boxes to keep: a program may make up any number of queue names
_NUMBERS = re.compile(r"(\d+)")


class Box:
    """Encrypts and decrypts for one purpose, with one key, in one queue."""

    __slots__ = ("_aead", "_refusal", "_start", "key_id")

    def __init__(self, key: Key, namespace: str, purpose: str, queue: str) -> None:
        self.key_id = key.id
        names = (namespace, purpose, queue)
        self._refusal = _refusal()
        self._aead = _aead(_derived(key, b"onward/1 encryption", *names))
        self._start = _VERSION + _parts(ALGORITHM, key.id, *names)

    def close(self, clear: bytes, *place: str) -> bytes:
        nonce = os.urandom(_NONCE)
        return b2a_base64(nonce + self._aead.encrypt(nonce, clear, self._start + _parts(*place)), newline=False)

    def open(self, text: bytes, *place: str) -> bytes:
        """Return the clear text; raise if the text was not encrypted for this very place."""
        try:
            sealed = a2b_base64(text, strict_mode=True)
            # Else the unused bits of base64 could be changed.
            if b2a_base64(sealed, newline=False) == text and len(sealed) >= _NONCE:
                return self._aead.decrypt(sealed[:_NONCE], sealed[_NONCE:], self._start + _parts(*place))
        except (self._refusal, Error):
            pass
        raise DecryptionFailed(
            f"the text does not decrypt with key {self.key_id}: its bytes were changed, or they were "
            f"encrypted for another job, queue or namespace, or with another secret"
        )


class Cipher:
    """Encrypts and decrypts texts of one namespace."""

    def __init__(self, ring: KeyRing | None, namespace: str) -> None:
        self._ring = ring
        self._namespace = namespace
        self._active = {} if ring is None else {key.id: key for key in ring.active}
        self._boxes: dict[tuple[str, str, str], Box] = {}
        self._oldest: bytes | None = None

    def refuse_without_key(self) -> None:
        """Raise if nothing can be encrypted here."""
        if self._ring is None:
            raise EncryptionUnavailable(
                "encryption is on and there is no key: set ONWARD_SIGNING_KEYS, ONWARD_SIGNING_KEYS_FILE or "
                "Onward(signing_keys=...); `onward keys new` makes one"
            )
        try:
            _aead(bytes(32))
        except ImportError:
            raise EncryptionUnavailable(
                "encryption needs the package cryptography: pip install 'onward[crypto]'"
            ) from None

    @property
    def is_able(self) -> bool:
        """Whether this process can encrypt and decrypt: it has a key, and `cryptography` is installed."""
        try:
            self.refuse_without_key()
        except EncryptionUnavailable:
            return False
        return True

    def closing(self, purpose: str, queue: str) -> Box:
        """Return the box of the key that encrypts now."""
        assert self._ring is not None
        return self._box(self._ring.signing, purpose, queue)

    def opening(self, algorithm: str, key_id: str, purpose: str, queue: str) -> Box:
        """Return the box that decrypts with this key; raise an error that says what is missing here."""
        box = self._boxes.get((key_id, purpose, queue))
        if box is not None and algorithm == ALGORITHM:
            return box
        if algorithm != ALGORITHM:
            raise DecryptionKeyMissing(f"it is encrypted by {algorithm!r:.40}, which is not known here: upgrade onward")
        key = self._active.get(key_id)
        if key is None:
            if self._ring is not None and key_id in self._ring.states:
                raise DecryptionFailed(f"it is encrypted with key {key_id}, which is revoked")
            raise DecryptionKeyMissing(
                f"it is encrypted with key {key_id!r:.80}, which is not known here: give this program the key"
            )
        try:
            return self._box(key, purpose, queue)
        except ImportError:
            raise DecryptionKeyMissing(
                f"it is encrypted with key {key_id}, and the package cryptography is missing: pip install 'onward[crypto]'"
            ) from None

    def digest(self, *parts: str) -> str:
        """Return a keyed hash: the same text for the same parts, from which a program without the keys learns nothing.

        It uses the oldest key, so that it stays the same while newer keys are added and removed.  The id of a key says how
        old it is; its position does not, since the first of a list signs.
        """
        if self._oldest is None:
            oldest = min(self._active.values(), key=lambda key: _by_age(key.id))
            self._oldest = _derived(oldest, b"onward/1 digests", self._namespace)
        mac = hmac.digest(self._oldest, _parts(*parts), "sha256")
        return b2a_base64(mac, newline=False).decode().rstrip("=")

    def _box(self, key: Key, purpose: str, queue: str) -> Box:
        place = (key.id, purpose, queue)
        box = self._boxes.get(place)
        if box is None:
            if len(self._boxes) >= _MOST_BOXES:
                self._boxes.clear()
            box = self._boxes[place] = Box(key, self._namespace, purpose, queue)
        return box


def _aead(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _refusal() -> type[Exception]:
    from cryptography.exceptions import InvalidTag

    return InvalidTag


def _derived(key: Key, domain: bytes, *names: str) -> bytes:
    """Derive a key by RFC 5869, for one block: it reveals neither the secret nor a key for another purpose."""
    extracted = hmac.digest(b"onward/1 encryption keys", key.secret, "sha256")
    return hmac.digest(extracted, domain + _parts(*names) + b"\x01", "sha256")


def _by_age(key_id: str) -> list[str | int]:
    """Return what sorts ids of keys by age: 2026-05 before 2026-11, k9 before k10."""
    return [int(part) if part.isdecimal() else part for part in _NUMBERS.split(key_id)]


def _parts(*parts: str) -> bytes:
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    return b"".join(len(part).to_bytes(4, "big") + part for part in encoded)
