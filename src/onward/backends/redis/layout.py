r"""The layout of records and schedules, written once: Python reads it, and `scripts` puts its names before the scripts.

    state 1 | delivery 4 | owner 1+n | flags 2 | started 8 | due 8 | size 4
    | MessagePack: the rest, and what never changes | sealed bytes, if they are few

Numbers are big-endian; an owner's length is written plus one, and 0 stands for none.  The size is that of the sealed bytes;
where it is 0 they are stored elsewhere, so that a large job is not written with every move.  The fields that a claim and a
success change have fixed places: the scripts move the usual job by cutting and joining strings, without decoding it.

A finished job is its last live record behind a patch, in the same hash.  No live record begins with a 0, every patch does:

    length 4 | MessagePack: state, end, reason, tombstone, ran; of a dead job also its fingerprint

A schedule is a field of one hash, by its name.  Scripts read and write its first two fields only:

    version 8 | seen_at 8 | MessagePack: the rest

A limit and a gate are fields of two hashes; every number has 8 bytes, and 0 stands for none:

    limits   queue:<name>, job:<name>, key:<name>    declared_at, what the code declares, what people chose
    gates    <queue>\n<lane>, one of them empty      full_at, written_at, shut_until, shut_for

Jobs that have a lane stand in other indexes than plain ones.  Their members sort by their bytes, and all scores are 0:

    lanes:<queue>    rank + 101, 1 byte | lane | 0 | due 8 | id       available jobs
    running          lane, or what all lanes of its job begin with | 0 | started 8 | id     leases; both, if they differ

Dead jobs stand besides in one index by group; its members sort by their bytes, and all scores are 0:

    deaths           job | 0 | fingerprint | 0 | id

A flow is a hash, `flow:<id>`; `flows` names all of them, and `flows:running` those that are not over:

    about       MessagePack: name, stop_on_failure, nodes: name, places of those that it comes after, when
    state       closed 1 | stopped 1 | unswept 1 | created_at 8 | added_at 8 | over_at 8, 0 stands for none
    cancelled   why, if it was cancelled as a whole
    retried     how many jobs its last retry has replayed
    =<node>     state 1 | failed 1 | todo 1 | the id up to which that is done
    +<node>     how many jobs were added to it

Jobs of a node are members of sorted sets, by their ids; all scores are 0.  A node has live jobs while `members` is there:

    members:<flow>\n<node>             that live
    waiting:<flow>\n<node>             of these, those whose node waits; `due` holds their delay, or the instant before
                                       which they do not start
    finished:<state>:<flow>\n<node>    that have ended, but for tombstones

`paused` holds the names of paused queues and, behind a line feed, those of queues that need a walk: they have jobs in
`lanes` or `booked`, or a limit.  A claim asks for both in one command.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

import msgspec

from onward.flow.graph import NodeState
from onward.job.lease import LARGEST_COUNT, LAST_INSTANT
from onward.job.states import State

__all__ = [
    "FEW",
    "FLAGS",
    "FLOW",
    "GATE",
    "LIMIT",
    "NODE",
    "NODE_STATES",
    "SCHEDULE",
    "STATES",
    "TODO",
    "ChangingFields",
    "FixedFields",
    "LanedFields",
    "MemberFields",
    "Patch",
    "Rest",
    "array",
    "binary",
    "lua",
    "picked",
]

# By the numbers that records hold.
STATES = {
    1: State.SCHEDULED,
    2: State.AVAILABLE,
    3: State.EXECUTING,
    4: State.RETRYABLE,
    5: State.COMPLETED,
    6: State.DISCARDED,
    7: State.CANCELLED,
}
FLAGS = {
    "IS_SUSPECT": 1,  # of a job that crashed; it is claimed as others are where no other flag is set
    "IS_MEMBER": 2,
    "AWAITS_NODE": 4,
    "IS_DELAYED": 8,  # its node waits, and the record holds its delay
    "IS_UNIQUE": 1 << 8,
    "HAS_HOLDS": 2 << 8,
    "EXPIRES": 4 << 8,
    "IS_AGAIN": 8 << 8,
    "AWAITS": 16 << 8,
    "IS_ASKED": 32 << 8,
    "IS_BOOKED": 64 << 8,
    "HAS_LANE": 128 << 8,
}
NODE_STATES = dict(enumerate(NodeState, 1))  # by the numbers that rows of nodes hold
TODO = {"SWEEP": 1, "REVIVE": 2, "REVIVE_BEHIND": 3}  # what is left to do with the jobs of a node
FEW = 256  # sealed bytes that travel in the record

# Fields and their bytes.
FENCE = {"state": 1, "delivery": 4, "owner": 1}  # the owner's name follows
HEADER = {"flags": 2, "started": 8, "due": 8, "size": 4}
LENGTH = {"length": 4}  # of a patch
SCHEDULE = {"version": 8, "seen_at": 8}
_BOUNDS = ("running", "tokens", "period", "burst")
LIMIT = dict.fromkeys(("declared_at", *_BOUNDS, *(f"chosen_{name}" for name in _BOUNDS)), 8)
GATE = dict.fromkeys(("full_at", "written_at", "shut_until", "shut_for"), 8)
FLOW = {"closed": 1, "stopped": 1, "unswept": 1, "created_at": 8, "added_at": 8, "over_at": 8}
NODE = {"state": 1, "failed": 1, "todo": 1}  # the id up to which that is done follows
_RECORD = FENCE | HEADER

_PYTHON = {1: "B", 2: "H", 4: "I", 8: "Q"}
_LUA = {1: "B", 2: "I2", 4: "I4", 8: "I8"}


class FixedFields(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The fields that never change."""

    job: str
    enqueued_at: int
    max_crashes: int
    expires_at: int | None
    unique_key: str | None
    idempotency_key: str | None
    idempotency_ttl: int
    single_instance: str | None


class LanedFields(FixedFields, array_like=True, frozen=True, gc=False):
    """The fields that never change of a job that has a lane; a plain job's record ends before the last two."""

    lane: str | None = None
    cost: int | None = None


class MemberFields(LanedFields, array_like=True, frozen=True, gc=False):
    """The fields that never change of a member of a flow."""

    flow: str | None = None
    node: str | None = None


class ChangingFields(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The fields after those with fixed places that a lease has."""

    queue: str
    rank: int
    attempts: int
    crashes: int
    interruptions: int
    waits: int
    parked_since: int | None
    cancel_reason: str | None
    spent: str | None


class Rest(ChangingFields, array_like=True, frozen=True, gc=False):
    """All fields after those with fixed places."""

    fixed: MemberFields


class Patch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The fields before the last live record of a finished job."""

    state: int = 0  # 0: it is live
    finished_at: int | None = None
    reason: str | None = None
    tombstone: int = 0
    ran: int = 0
    fingerprint: str | None = None  # of a dead job; the patch of any other ends before it


def binary(fields: Mapping[str, int]) -> struct.Struct:
    """Return the struct that packs these fields.

    >>> binary(FENCE).format, binary(HEADER).format
    ('>BIB', '>HQQI')
    """
    return struct.Struct(">" + "".join(_PYTHON[size] for size in fields.values()))


def picked(names: Iterable[str], owner: int) -> struct.Struct:
    """Return the struct that reads only these fields from a record whose owner's name has ``owner`` bytes.

    >>> picked(["delivery", "size"], 5).format
    '>1xI1x5x2x8x8xI'
    """
    wanted = set(names)
    codes = [_PYTHON[size] if name in wanted else f"{size}x" for name, size in _RECORD.items()]
    codes.insert(len(FENCE), f"{owner}x")
    return struct.Struct(">" + "".join(codes))


def array(kind: type[msgspec.Struct], *, without: int = 0) -> bytes:
    """Return the byte with which MessagePack begins an array of these fields, or of all but the last ones."""
    return bytes([0x90 + len(kind.__struct_fields__) - without])


def lua() -> str:
    """Return the constants of the layout as Lua.  Some are in tables: a script may have 200 local names.

    ``FROM`` is the first byte of a field in a record without an owner, counted from one; ``FORMAT`` is for `struct`.
    """
    constants = [f"local {', '.join(names)} = {', '.join(map(str, values))}" for names, values in _named()]
    tables = [
        f"local {name} = {{{', '.join(f'{key} = {value}' for key, value in table.items())}}}"
        for name, table in _tables().items()
    ]
    return "\n".join([*constants, *tables, ""])


def _named() -> Iterator[tuple[Iterable[str], Iterable[int]]]:
    yield [state.name for state in STATES.values()], STATES
    yield FLAGS, FLAGS.values()
    yield ("FEW", "LARGEST_COUNT", "LAST_INSTANT"), (FEW, LARGEST_COUNT, LAST_INSTANT)
    # The scripts' MessagePack returns first the place of what is left: the packed fields that never change.
    yield ("FIXED", *_upper(ChangingFields)), range(1, 2 + len(ChangingFields.__struct_fields__))


def _tables() -> Mapping[str, Mapping[str, object]]:
    parts = {"fence": FENCE, "header": HEADER, "record": _RECORD, "length": LENGTH, "schedule": SCHEDULE}
    parts |= {"limit": LIMIT, "gate": GATE, "flow": FLOW, "node": NODE, "flags": {"flags": HEADER["flags"]}}
    places = accumulate(_RECORD.values(), initial=1)
    return {
        "FORMAT": {name: f"'>{''.join(_LUA[size] for size in fields.values())}'" for name, fields in parts.items()},
        "FROM": dict(zip((*_RECORD, "rest"), places, strict=True)) | {"patch": 1 + LENGTH["length"]},
        "FIELD": {name: place for place, name in enumerate(_upper(MemberFields), 1)},
        "NODE": {state.name: number for number, state in NODE_STATES.items()},
        "TODO": TODO,
        "ARRAY": {
            "rest": f"'\\{array(Rest)[0]}'",
            "patch": f"'\\{array(Patch, without=1)[0]}'",
            "death": f"'\\{array(Patch)[0]}'",
        },
    }


def _upper(kind: type[msgspec.Struct]) -> list[str]:
    return [name.upper() for name in kind.__struct_fields__]
