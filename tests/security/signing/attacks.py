"""What an attacker does who can write to the store and has no key: forged jobs, by the way they are forged.

Each attack turns an honest, signed job into bytes and a place to put them.  All of them would run if no worker looked at
signatures; `DAMAGE` would not, since it is no job at all any more or lies where it does not belong.
"""

import hashlib
import hmac
import itertools
import re
import time
from base64 import b64decode, b64encode
from typing import NamedTuple

import msgspec

from onward.base.clock import SECOND, SystemClock
from onward.base.ids import IdMaker
from onward.job.envelope import Envelope, Letter, seal
from onward.security.key_ring import KeyRing
from onward.security.signing import Signer

NAMESPACE, QUEUE, OTHER_QUEUE = "default", "mail", "ops"

CURRENT, PREVIOUS, REVOKED, DROPPED, STAGING = (letter * 40 for letter in "cprds")
RING = KeyRing.parse(f"k2:{CURRENT},k1:{PREVIOUS},k0:revoked")

_new_id = IdMaker(SystemClock())


class Forged(NamedTuple):
    """Bytes, and where the attacker puts them."""

    id: str
    queue: str
    data: bytes

    @property
    def envelope(self):
        """As the attacker stores it: the columns say whatever suits."""
        return Envelope(self.id, self.queue, self.data, job="send", enqueued_at=1, max_crashes=3)


def signed_with(secrets, *, namespace=NAMESPACE):
    return Signer(KeyRing.parse(secrets), namespace).sign


HONESTLY = Signer(RING, NAMESPACE).sign


def honest(*, sign=HONESTLY, **changes):
    """A signed job as a client enqueues it."""
    fields = {
        "id": _new_id(),
        "namespace": NAMESPACE,
        "queue": QUEUE,
        "job": "send",
        "payload": msgspec.Raw(b'{"n":1}'),
        "max_retries": 0,
        "max_crashes": 3,
        "enqueued_at": 1_700_000_000_000_000,
    }
    return seal(Letter(**(fields | changes)), sign=sign)


def _parts(data):
    header, _, body = data.partition(b"\n")
    return header, body


def _rewritten(old, new, **honest_changes):
    """The honest job with other bytes under its old signature."""

    def attack():
        job = honest(**honest_changes)
        header, body = _parts(job.data)
        assert old in body
        changed = body.replace(old, new, 1)
        return _placed(job, header + b"\n" + changed)

    return attack


def _placed(job, data):
    """Where its own bytes say that it belongs: their writer takes care of that."""
    body = _parts(data)[1]
    job_id, queue = (re.search(rf'"{field}": ?"([^"]*)"'.encode(), body).group(1).decode() for field in ("id", "queue"))
    return Forged(job_id, queue, data)


def _with_header(make_header):
    def attack():
        job = honest()
        header, body = _parts(job.data)
        return Forged(job.id, job.queue, make_header(header, body) + b"\n" + body)

    return attack


def _signed_by(sign, **changes):
    def attack():
        job = honest(sign=sign, **changes)
        return Forged(job.id, job.queue, job.data)

    return attack


def _another_id():
    job = honest()
    new_id = _new_id()
    return Forged(new_id, job.queue, job.data.replace(job.id.encode(), new_id.encode()))


def _pasted():
    """The signature of one job before another."""
    mine, theirs = honest(), honest(job="pay")
    return Forged(theirs.id, theirs.queue, _parts(mine.data)[0] + b"\n" + _parts(theirs.data)[1])


def _expired_and_prolonged():
    past, later = round(time.time() - 60) * SECOND, round(time.time() + 3600) * SECOND
    return _rewritten(b'"expires_at":%d' % past, b'"expires_at":%d' % later, expires_at=past)()


def _spelled_otherwise(header, body):
    """The last letter of base64 has bits that mean nothing."""
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = header[:-2] + letters[letters.index(header[-2]) ^ 1 :][:1] + b"="
    assert (other != header, b64decode(other[12:])) == (True, b64decode(header[12:]))
    return other


def _mac(key, body):
    return b64encode(hmac.digest(key, body, hashlib.sha256))


# Every one of these runs where signatures are not looked at.
ATTACKS = {
    "not signed": _signed_by(None),
    "an empty signature": _with_header(lambda header, body: b"onward/1 k2 "),
    "a dash for a signature": _with_header(lambda header, body: b"onward/1 k2 -"),
    "a dash for a key": _with_header(lambda header, body: header.replace(b"k2", b"-", 1)),
    "an unknown key": _with_header(lambda header, body: header.replace(b"k2", b"k9", 1)),
    "another key's name": _with_header(lambda header, body: header.replace(b"k2", b"k1", 1)),
    "a revoked key's name": _with_header(lambda header, body: header.replace(b"k2", b"k0", 1)),
    "signed with a key that was dropped": _signed_by(signed_with(f"k9:{DROPPED}")),
    "signed with a key that was revoked": _signed_by(signed_with(f"k0:{REVOKED}")),
    "signed in another environment": _signed_by(signed_with(f"k2:{STAGING}")),
    "signed for another namespace": _signed_by(signed_with(f"k2:{CURRENT}", namespace="staging")),
    "signed for another queue": _signed_by(lambda queue: HONESTLY(OTHER_QUEUE)),
    "signed with nothing": _with_header(lambda header, body: b"onward/1 k2 " + _mac(b"", body)),
    "signed with the key's name": _with_header(lambda header, body: b"onward/1 k2 " + _mac(b"k2", body)),
    "hashed": _with_header(lambda header, body: b"onward/1 k2 " + b64encode(hashlib.sha256(body).digest())),
    "signed with the secret itself": _with_header(lambda header, body: b"onward/1 k2 " + _mac(CURRENT.encode(), body)),
    "a signature in capitals": _with_header(lambda header, body: header[:12] + header[12:].swapcase()),
    "a signature spelled otherwise": _with_header(_spelled_otherwise),
    "a signature in hex": _with_header(lambda header, body: header[:12] + b64decode(header[12:]).hex().encode()),
    "a signature cut short": _with_header(lambda header, body: header[:-1]),
    "half a signature": _with_header(lambda header, body: header[: 12 + 22]),
    "a signature that goes on": _with_header(lambda header, body: header + b"0"),
    "a signature twice": _with_header(lambda header, body: header + header[12:]),
    "another id": _another_id,
    "another queue": _rewritten(b'"queue":"mail"', b'"queue":"ops"'),
    "another namespace": _rewritten(
        b'"namespace":"staging"',
        b'"namespace":"default"',
        sign=signed_with(f"k2:{CURRENT}", namespace="staging"),
        namespace="staging",
    ),
    "another handler": _rewritten(b'"job":"send"', b'"job":"pay"'),
    "other arguments": _rewritten(b'{"n":1}', b'{"n":2}'),
    "another budget": _rewritten(b'"max_retries":0', b'"max_retries":9'),
    "a second word on the handler": _rewritten(b'{"id"', b'{"job":"pay","id"'),
    "a last word on the arguments": _rewritten(b',"max_retries":0}', b',"max_retries":0,"payload":{"n":3}}'),
    "no handler's time-out": _rewritten(b',"timeout":5.0', b"", timeout=5.0),
    "no expiry": _rewritten(b',"expires_at":1', b',"expires_was":1', expires_at=1),
    "a later expiry": _expired_and_prolonged,
    "a blank behind": _rewritten(b'"max_retries":0}', b'"max_retries":0} '),
    "a line behind": _rewritten(b'"max_retries":0}', b'"max_retries":0}\n'),
    "a blank inside": _rewritten(b'"queue":', b'"queue": '),
    "one job's signature before another": _pasted,
}


def _moved():
    """The honest bytes, untouched, somewhere else."""
    job = honest()
    return Forged(job.id, OTHER_QUEUE, job.data)


def _glued(between):
    def attack():
        one, two = honest(), honest()
        return Forged(one.id, one.queue, one.data + between + two.data)

    return attack


# These run nowhere, signed or not: the worker compares, or there is nothing to read.
DAMAGE = {
    "moved to another id": lambda: Forged(_new_id(), QUEUE, honest().data),
    "moved to another queue": _moved,
    "from another namespace": _signed_by(HONESTLY, namespace="staging"),
    "two jobs in one": _glued(b""),
    "two jobs in two lines": _glued(b"\n"),
    "a version with a nought": _with_header(lambda header, body: header.replace(b"/1", b"/01")),
    "no header": lambda: Forged((job := honest()).id, job.queue, _parts(job.data)[1]),
    "nothing": lambda: Forged(_new_id(), QUEUE, b""),
}


def bit_flips(offset=0, step=1):
    """An honest job for every single bit of one, with that bit turned over."""
    size = len(honest().data)
    for bit in range(offset, size * 8, step):
        job = honest()
        assert len(job.data) == size
        changed = bytearray(job.data)
        changed[bit // 8] ^= 1 << bit % 8
        yield Forged(job.id, job.queue, bytes(changed))


def truncations(step=1):
    """An honest job for every length that one could be cut to."""
    for length in range(0, len(honest().data), step):
        job = honest()
        yield Forged(job.id, job.queue, job.data[:length])


def many(attacks, times):
    return [attack() for attack, _ in itertools.product(attacks.values(), range(times))]
