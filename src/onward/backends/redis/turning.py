"""The data of a turn between Python and its script: settlements out, leases in.

Nearly all settlements are plain successes or failures that are tried again, and nearly all leases are of jobs that were
never claimed before: this module recognises these and encodes or decodes them faster.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from onward.backend import Lease, Settlement
from onward.backends.redis.layout import FLAGS, STATES, ChangingFields, array, picked
from onward.backends.redis.packing import UNREADABLE, Message, pack, packed_envelope, readable, untouched
from onward.base.clock import SECOND
from onward.job.envelope import Sealed
from onward.job.lease import Hold
from onward.job.settlement import GONE, LEASE_LOST, Settled, already_applied, applied
from onward.job.states import State

__all__ = ["HOLDS", "Laned", "Outgoing", "is_plain_retry", "leases", "read_lanes"]

HOLDS = (Hold.FREE, Hold.HELD, Hold.BUSY, Hold.DONE)
_ANSWERS: dict[int, Settled] = {
    **{number: applied(state) for number, state in STATES.items()},
    **{10 + number: already_applied(state) for number, state in STATES.items()},
    20: LEASE_LOST,
    21: GONE,
}
_COMPLETED, _RETRYABLE = applied(State.COMPLETED), applied(State.RETRYABLE)
_MEMBER = FLAGS["IS_MEMBER"]
Laned = tuple[str, str, int]  # the id of a lease, its lane, and for how many microseconds it was shut if it probes


class Outgoing:
    """The settlements of a turn.  Plain acks, nearly all of them, travel as ids and tokens, and plain retries as columns."""

    __slots__ = ("_answers", "_ids", "_places", "_plain", "_tokens", "bytes", "drop", "is_usual", "others", "retried")

    def __init__(self, settlements: Sequence[Settlement], owner: str) -> None:
        message = Message()
        ids: list[str] = []
        tokens: list[int] = []
        others: list[tuple[Any, ...]] = []
        acked: list[int] = []
        retried: list[int] = []
        places: list[int] = []
        seen: set[str] = set()  # only the first settlement of a job counts
        keep = not settlements or settlements[0].keep
        members = False
        for at, each in enumerate(settlements):
            lease = each.lease
            job_id = lease.envelope.id
            if each.gate is not None or lease.owner != owner or job_id in seen:
                is_plain = False
            elif each.move == "ack":
                is_plain = each.result is None and each.reason is None and each.failure is None and each.keep is keep
            else:
                is_plain = is_plain_retry(each)
            seen.add(job_id)
            if not is_plain:
                others.append(_packed(each, owner, message))
                places.append(at)
            elif each.move == "ack":
                ids.append(job_id)
                tokens.append(lease.token)
                acked.append(at)
                members = members or lease.member
            else:
                retried.append(at)
        self.others = others
        self.is_usual = not others and not members and not retried
        self.drop = not keep
        self.retried = _columns([settlements[at] for at in retried], message)
        self.bytes = message.bytes
        self._ids, self._tokens, self._places, self._plain = ids, tokens, places, acked + retried
        self._answers = [_COMPLETED] * len(settlements)
        for at in retried:
            self._answers[at] = _RETRYABLE

    @property
    def acked(self) -> tuple[list[str], list[int], bool]:
        return self._ids, self._tokens, self.drop

    def completed(self) -> list[Settled]:
        """Return the answers of settlements that were all applied."""
        return self._answers

    def settled(self, others: bytes, not_applied: bytes) -> list[Settled]:
        """Return the answers, in the order of the settlements."""
        for at, number in zip(self._places, _numbers(others), strict=True):
            self._answers[at] = _ANSWERS[number]
        for at, number in _exceptions(not_applied):
            self._answers[self._plain[at]] = _ANSWERS[number]
        return self._answers


def is_plain_retry(settlement: Settlement) -> bool:
    """Return whether a settlement is that of a failed run, with its record and with nothing else."""
    return (
        settlement.move == "nack"
        and settlement.ran
        and settlement.failure is not None
        and settlement.spent is None
        and settlement.dead_letter is None
    )


def _columns(retries: Sequence[Settlement], message: Message) -> tuple[list[Any], ...]:
    """Return the argument of the script for plain retries.  Of failures that many have in common, the text travels once."""
    places: dict[tuple[int, int], int] = {}
    failures = []
    for each in retries:
        key = id(each.failure), id(each.by)
        place = places.get(key)
        if place is None:
            failure, by = each.failure, "" if each.by is None else each.by.encoded()
            assert failure is not None
            place = places[key] = message.beside(_items(failure.kind, failure.message, failure.traceback))
            message.bytes.append(_items(failure.fingerprint, by))  # in the next place
        failures.append(place)
    return (
        [each.lease.envelope.id for each in retries],
        [each.lease.token for each in retries],
        [round(each.delay * SECOND) for each in retries],
        [each.duration_ms for each in retries],
        failures,
    )


def _items(*texts: str) -> bytes:
    """Return texts as they stand in a packed array."""
    return pack(texts)[1:]


def _packed(settlement: Settlement, owner: str, message: Message) -> tuple[Any, ...]:
    """Return the argument of the scripts' `settle_one`; most are short."""
    lease, move = settlement.lease, settlement.move
    kept = settlement.keep or lease.member  # those behind a member may want its result
    result = settlement.result if kept and move == "ack" else None
    plain = (
        lease.envelope.id,
        lease.token,
        lease.owner == owner,
        move,
        settlement.ran,
        None if result is None else message.beside(result),
        move == "ack" and not settlement.keep,
    )
    if move == "ack" and settlement.reason is None and settlement.failure is None and settlement.gate is None:
        return plain
    failure, letter, gate = settlement.failure, settlement.dead_letter, settlement.gate
    return (
        *plain,
        settlement.reason,
        round(settlement.delay * SECOND),
        settlement.waits,
        None if failure is None else (failure.kind, failure.message, failure.traceback, failure.fingerprint),
        settlement.duration_ms,
        settlement.spent,
        None if letter is None else packed_envelope(letter, message),
        settlement.awaits,
        [(name, message.beside(value)) for name, value in settlement.notes],
        None if gate is None else (gate.lane, round(gate.seconds * SECOND), gate.probes),
        None if settlement.by is None else settlement.by.encoded(),
    )


_changing = msgspec.msgpack.Decoder(ChangingFields).decode
_numbers = msgspec.msgpack.Decoder(list[int]).decode
_allotted = msgspec.msgpack.Decoder(list[tuple[int, int, str]]).decode
_allotted_to = msgspec.msgpack.Decoder(tuple[int, int, msgspec.Raw]).decode
_exceptions = msgspec.msgpack.Decoder(list[tuple[int, int]]).decode
read_lanes = msgspec.msgpack.Decoder(list[Laned]).decode


def leases(
    found: Sequence[bytes],
    sealed: Sequence[bytes],
    holds: bytes,
    *,
    owner: str,
    expires_at: int,
    laned: Sequence[Laned] = (),
) -> list[Lease]:
    """Return leases from the answer: ids and records by turns, the sealed bytes of records without them, holds and lanes.

    A record that cannot be read makes no lease.
    """
    allotted, head = _holds(holds), _owned(len(owner.encode()))
    start, apart = head.size, iter(sealed)
    begins, record = _NO_JOB, _NOTHING
    taken = []
    for at in range(0, len(found), 2):
        raw = found[at + 1]
        try:
            delivery, flags, started, size = head.unpack_from(raw)
            data = raw[-size:] if size else next(apart)
            if not raw.startswith(begins, start):  # like the one before
                few = raw[start : start + raw[start + 1] + _BESIDE_NAME]
                known = _short(few)
                record, begins = (known, few) if known else (_changing(raw[start : len(raw) - size]), _NO_JOB)
            job_id = found[at].decode()
        except UNREADABLE:
            continue
        hold, holder = allotted.get(at // 2, _NO_HOLD) if allotted else _NO_HOLD
        taken.append(
            Lease(
                envelope=Sealed(job_id, record.queue, data),
                token=delivery,
                owner=owner,
                expires_at=expires_at,
                claimed_at=started,
                attempts=record.attempts,
                crashes=record.crashes,
                interruptions=record.interruptions,
                hold=hold,
                holder=holder,
                waits=record.waits,
                parked_since=record.parked_since,
                spent=record.spent,
                member=flags & _MEMBER != 0,
            )
        )
    return _with_lanes(taken, laned) if laned else taken


def _with_lanes(taken: Sequence[Lease], laned: Sequence[Laned]) -> list[Lease]:
    lanes: dict[str, Any] = {job_id: {"lane": lane, "probe": probe / SECOND} for job_id, lane, probe in laned}
    return [msgspec.structs.replace(lease, **lanes.get(lease.envelope.id, {})) for lease in taken]


def _holds(raw: bytes) -> dict[int, tuple[Hold, str | None]]:
    """Return the holds by the place of the lease.  A holder whose name is no text is not named."""
    try:
        return {at: (HOLDS[hold], holder or None) for at, hold, holder in _allotted(raw)}
    except UNREADABLE:
        return {at: (HOLDS[hold], None) for at, hold, _ in readable(raw, _allotted_to)}


@lru_cache(maxsize=512)
def _short(packed: bytes) -> ChangingFields | None:
    """Return the changing fields of a record from the bytes that they take if each but the first takes one.

    They do in nearly all records, and few records differ in them.  None: these bytes are not all of them.
    """
    try:
        return _changing(_ARRAY + packed[1:])
    except UNREADABLE:
        return None


@lru_cache(maxsize=64)
def _owned(length: int) -> struct.Struct:
    """Return the struct of delivery, flags, start and size in a record whose owner's name has ``length`` bytes."""
    return picked(("delivery", "flags", "started", "size"), length)


_NO_HOLD: tuple[Hold, str | None] = (Hold.FREE, None)
_NO_JOB, _NOTHING = b"no record begins like this", untouched("", 0)
_ARRAY = array(ChangingFields)
# The bytes of changing fields beside the name of a queue, less 0xA0: the byte before a name is that and its length.
_BESIDE_NAME = 2 + len(ChangingFields.__struct_fields__) - 1 - 0xA0
