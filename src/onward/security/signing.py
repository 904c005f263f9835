r"""Signing jobs: a signature over the sealed bytes, which a worker checks before it reads any of them.

    onward/1 <key-id> <signature>\n<sealed bytes>

    key of a queue  =  HKDF-SHA256(secret; "onward/1 envelope", namespace, queue)
    signature       =  HMAC-SHA256(key of the queue; "onward envelope", version, key id, sealed bytes), in base64

All parts but the last have their length before them, so that no two lists of parts are the same bytes.  The sealed bytes
hold namespace, queue, id, job, payload, budget, time-out, keys and times; `onward.job.envelope.open_sealed` compares
the first three with where they were found.  What a store changes (counters, state, due time) is not signed and chooses
no code.

There is one algorithm to a version, and nothing in a job can ask for another.  Whether a signature is needed is the worker's
decision, never the job's.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable, Sequence
from typing import Literal

from onward.base.lazy import hashlib, hmac
from onward.errors import SignatureRejected, SigningKeyMissing
from onward.job.envelope import UNSIGNED, VERSION, Sealed, Sign, Verify, parted
from onward.security.key_ring import Key, KeyRing, Mode

__all__ = ["Signer", "Signing", "Trust", "Unverified"]

_Mac = Callable[[bytes], bytes]  # sealed bytes -> their signature, as text, with the end of the line
Unverified = Callable[
    [Sealed, str], None
]  # called with a job that runs although it was not verified, and why it was not

# What the signature of an entry of the audit trail is worth here.
Trust = Literal["verified", "unsigned", "unknown", "altered"]

_BLOCK = 64  # bytes in a block of SHA-256
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))
_LINE = 45  # bytes of a signature in base64, and the end of the line
_MOST_QUEUES = 4096  # prepared states to keep: a program may make up any number of queue names


class Signer:
    """Signs and verifies the jobs of one namespace."""

    def __init__(self, ring: KeyRing | None, namespace: str) -> None:
        self._namespace = namespace
        self._signing = None if ring is None else ring.signing
        self._active = {} if ring is None else {key.id.encode(): key for key in ring.active}
        self._revoked = frozenset(() if ring is None else {key.id.encode() for key in ring.keys} - self._active.keys())
        self._prepared: dict[tuple[bytes, str], _Mac] = {}
        # How a header of the key that signs begins, how long it is, and the MAC of a queue.
        self.start = b"" if self._signing is None else b"onward/%d %b " % (VERSION, self._signing.id.encode())
        self._length = len(self.start) + _LINE
        self._usual: dict[str, Callable[[bytes], bytes | None]] = {}

    def sign(self, queue: str) -> Callable[[bytes], bytes]:
        """Return the function that puts a header before the sealed bytes of this queue's jobs."""
        assert self._signing is not None
        mac, start = self._mac(self._signing, queue), self.start
        return lambda body: b"%b%b%b" % (start, mac(body), body)

    def sign_note(self, queue: str, place: bytes) -> tuple[bytes, bytes]:
        """Return the start of the header of a note, and the signature over its place and value, with the end of the line."""
        assert self._signing is not None
        return self.start, self._note_mac(self._signing, queue)(place)

    def refuses_note(self, queue: str, key_id: bytes, signature: bytes, place: bytes) -> str | None:
        """Say why no key of the ring has signed this note; None if one has."""
        key = self._active.get(key_id)
        if key is None:
            return self._stranger(key_id)
        if hmac.compare_digest(self._note_mac(key, queue)(place), signature + b"\n"):
            return None
        return (
            f"its signature by key {key_id.decode()} does not match: it was changed, or signed for another job, name, queue "
            f"or namespace"
        )

    def sign_entry(self, parts: bytes) -> str:
        """Return the signature of an entry of the audit trail, behind the id of its key."""
        assert self._signing is not None
        return f"{self._signing.id} {self._entry_mac(self._signing)(parts).decode().rstrip()}"

    def has_signed_entry(self, key_id: str, signature: str, parts: bytes) -> bool | None:
        """Return whether a key of the ring has signed this entry; None if the ring has no such key that counts."""
        key = self._active.get(key_id.encode("utf-8", "replace"))
        if key is None:
            return None
        return hmac.compare_digest(self._entry_mac(key)(parts), signature.encode("utf-8", "replace") + b"\n")

    def body(self, sealed: Sealed) -> bytes | None:
        """Return the sealed bytes if the key that signs here has signed them: the usual case, and the fastest."""
        verified = self._usual.get(sealed.queue)
        if verified is None:
            if self._signing is None:
                return None
            verified = self._verified_by(self._mac(self._signing, sealed.queue))
            self._usual[sealed.queue] = verified
        return verified(sealed.data)

    def _verified_by(self, mac: _Mac) -> Callable[[bytes], bytes | None]:
        """Return what `body` does for one queue.  Every signed job passes through it: what it needs is looked up once."""
        start, length, equal = self.start, self._length, hmac.compare_digest
        signature = slice(len(start), length)

        def verified(data: bytes) -> bytes | None:
            if not data.startswith(start):
                return None
            body = data[length:]
            return body if equal(mac(body), data[signature]) else None

        return verified

    def refusal(self, queue: str, key_id: bytes, signature: bytes, body: bytes) -> str | None:
        """Return why the signature does not count for this queue; None if it does."""
        mac = self._prepared.get((key_id, queue))
        if mac is None:
            key = self._active.get(key_id)
            if key is None:
                return self._stranger(key_id)
            mac = self._mac(key, queue)
        # As text, so that there is one way to write a signature; and in the same time, wherever the first difference is.
        if hmac.compare_digest(mac(body), signature + b"\n"):
            return None
        return (
            f"its signature by key {key_id.decode()} does not match: its bytes were changed, or they were "
            f"signed for another queue or namespace, or with another secret"
        )

    def knows(self, key_id: bytes) -> bool:
        """Return whether a key is on the ring, revoked ones included."""
        return key_id == UNSIGNED or key_id in self._active or key_id in self._revoked

    def _stranger(self, key_id: bytes) -> str:
        if key_id == UNSIGNED:
            return "it is not signed"
        told = key_id[:64].decode("latin-1").encode("unicode_escape").decode()  # it ends in a log line
        if key_id in self._revoked:
            return f"it was signed with key {told}, which is revoked"
        return f"it was signed with key {told}, which is not known here"

    def _entry_mac(self, key: Key) -> _Mac:
        start = _parts(b"onward audit", str(VERSION).encode(), key.id.encode())
        return _prepare(_key_of_queue(key.secret, self._namespace, ""), start)

    def _note_mac(self, key: Key, queue: str) -> _Mac:
        start = _parts(b"onward note", str(VERSION).encode(), key.id.encode())
        return _prepare(_key_of_queue(key.secret, self._namespace, queue), start)

    def _mac(self, key: Key, queue: str) -> _Mac:
        key_id = key.id.encode()
        mac = self._prepared.get((key_id, queue))
        if mac is None:
            if len(self._prepared) >= _MOST_QUEUES:
                self._prepared.clear()
                self._usual.clear()
            start = _parts(b"onward envelope", str(VERSION).encode(), key_id)
            mac = self._prepared[key_id, queue] = _prepare(_key_of_queue(key.secret, self._namespace, queue), start)
        return mac


class Signing:
    """Signs an application's jobs if it has a key, and verifies them as its mode says."""

    def __init__(
        self,
        ring: KeyRing | None,
        mode: Mode | None,
        namespace: str,
        *,
        unverified: Unverified,
        look: Callable[[], object] | None = None,  # for keys that are new: may `adopt` another ring
    ) -> None:
        # With a ring and no mode it warns: "off" would ignore the keys, and "require" would refuse jobs during a roll-out.
        self.mode: Mode = mode or ("off" if ring is None else "warn")
        self._namespace = namespace
        self._unverified = unverified
        self._look = look
        self.adopt(ring)

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of the keys that verify."""
        return () if self._ring is None else tuple(sorted(key.id for key in self._ring.active))

    def adopt(self, ring: KeyRing | None) -> None:
        """Sign and verify with these keys from now on."""
        self._ring = ring
        self._signer = Signer(ring, self._namespace)

    @property
    def required(self) -> bool:
        return self.mode == "require"

    @property
    def sign(self) -> Sign | None:
        """The function that signs jobs here; None if they are not signed."""
        if self._ring is not None:
            return self._sign
        return self._refuse if self.required else None

    @property
    def verify(self) -> Verify | None:
        """The function that verifies jobs here; None if they are not verified."""
        match self.mode:
            case "off":
                return None
            case "warn":
                return self._verify_or_tell
            case "require":
                return self._verify

    def outdated(self, sealed: Sealed) -> bool:
        """Return whether a key has signed this that still verifies, and signs no more."""
        key_id, signature, body = parted(sealed.data)
        if self._ring is None or sealed.data.startswith(self._signer.start):
            return False
        return self._signer.refusal(sealed.queue, key_id, signature, body) is None

    def refuse_without_key(self) -> None:
        """Raise if every job would be refused."""
        if self.required and self._ring is None:
            raise SigningKeyMissing(
                "signing is 'require' and there is no key: set ONWARD_SIGNING_KEYS, ONWARD_SIGNING_KEYS_FILE or "
                "Onward(signing_keys=...); `onward keys new` makes one"
            )

    def sign_note(self, job_id: str, queue: str, name: str, value: bytes) -> bytes:
        """Return the value of a note with its header."""
        if self._ring is None:
            self.refuse_without_key()
            return b"onward/%d - -\n%b" % (VERSION, value)
        start, line = self._signer.sign_note(queue, _place(job_id, name) + value)
        return b"%b%b%b" % (start, line, value)

    def open_note(self, job_id: str, queue: str, name: str, sealed: bytes) -> bytes:
        """Return the value of a note, verified as the mode says."""
        key_id, signature, value = parted(sealed)
        if self.mode != "off":
            if self._look is not None and not self._signer.knows(key_id):
                self._look()
            refusal = self._signer.refuses_note(queue, key_id, signature, _place(job_id, name) + value)
            if refusal is not None and self.required:
                raise SignatureRejected(refusal)
            if refusal is not None:
                self._unverified(Sealed(job_id, queue, sealed), f"of its note {name!r} {refusal}")
        return value

    def sign_entry(self, parts: Sequence[str]) -> str:
        """Return the signature of an entry of the audit trail; nothing without a key."""
        return "" if self._ring is None else self._signer.sign_entry(_text_parts(parts))

    def trust_in_entry(self, signature: str, parts: Sequence[str]) -> Trust:
        """Return what the signature of an entry is worth.  Where signatures are required, any but a right one is altered."""
        key_id, _, mac = signature.partition(" ")
        if self._look is not None and signature and not self._signer.knows(key_id.encode("utf-8", "replace")):
            self._look()
        is_right = self._signer.has_signed_entry(key_id, mac, _text_parts(parts)) if signature else None
        if is_right is None:
            return "altered" if self.required else "unknown" if signature else "unsigned"
        return "verified" if is_right else "altered"

    def _sign(self, queue: str) -> Callable[[bytes], bytes]:
        return self._signer.sign(queue)

    def _verify(self, sealed: Sealed) -> bytes:
        body = self._signer.body(sealed)
        if body is None:
            body, refusal = self._looked_at(sealed)
            if refusal is not None:
                raise SignatureRejected(refusal)
        return body

    def _verify_or_tell(self, sealed: Sealed) -> bytes:
        body = self._signer.body(sealed)
        if body is None:
            body, refusal = self._looked_at(sealed)
            if refusal is not None:
                self._unverified(sealed, refusal)
        return body

    def _looked_at(self, sealed: Sealed) -> tuple[bytes, str | None]:
        """Return the sealed bytes, and why no key of the ring has signed them.  A key may have been added a moment ago."""
        key_id, signature, body = parted(sealed.data)
        if self._look is not None and not self._signer.knows(key_id):
            self._look()
        return body, self._signer.refusal(sealed.queue, key_id, signature, body)

    def _refuse(self, queue: str) -> Callable[[bytes], bytes]:
        """Raise instead of signing: a worker with the same settings would refuse the job."""
        self.refuse_without_key()
        raise AssertionError("there is a key after all")


def _prepare(key: bytes, start: bytes) -> _Mac:
    """Compute HMAC up to where the sealed bytes begin: copying two states costs less than half of computing them again."""
    block = key.ljust(_BLOCK, b"\0")
    inner, outer = hashlib.sha256(block.translate(_INNER)), hashlib.sha256(block.translate(_OUTER))
    inner.update(start)
    copy_inner, copy_outer = inner.copy, outer.copy

    def mac(body: bytes) -> bytes:
        begun = copy_inner()
        begun.update(body)
        ended = copy_outer()
        ended.update(begun.digest())
        return b2a_base64(ended.digest())

    return mac


def _key_of_queue(secret: bytes, namespace: str, queue: str) -> bytes:
    """Derive a key by RFC 5869, for one block: the key of one queue reveals neither the others nor the secret."""
    extracted = hmac.digest(b"onward/1 signing keys", secret, "sha256")
    named = _parts(b"onward/1 envelope", namespace.encode(), queue.encode("utf-8", "surrogatepass"))
    return hmac.digest(extracted, named + b"\x01", "sha256")


def _text_parts(parts: Sequence[str]) -> bytes:
    return _parts(*(part.encode("utf-8", "surrogatepass") for part in parts))


def _place(job_id: str, name: str) -> bytes:
    return _parts(job_id.encode("utf-8", "surrogatepass"), name.encode("utf-8", "surrogatepass"))


def _parts(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
