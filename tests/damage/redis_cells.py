"""The cells of a Redis store: fields of packed records, and what each kind of key holds of a job, a session or a queue.

A column of a record is written by taking the record apart and packing it again with the value in it.  Records are also cut
at every length and have one bit of every byte flipped, one row for each.
"""

import struct

import msgspec

from tests.damage.scenes import AUDIT_SCENES, LIMIT_SCENES, SCENES, SERIES_SCENES, lanes, members, running, waiting

P = "{onward}:"
FENCE = struct.Struct(">BIB")
HEADER = struct.Struct(">BBQQI")
LIMIT = struct.Struct(">9Q")
GATE = struct.Struct(">4Q")

NUMBERS = ("state", "delivery", "flags", "suspect", "started", "due", "size")
REST = (
    "queue", "rank", "attempts", "crashes", "interruptions", "waits", "parked_since", "cancel_reason", "spent", "fixed",
)  # fmt: skip
FIXED = (
    "job", "enqueued_at", "max_crashes", "expires_at", "unique_key", "idempotency_key", "idempotency_ttl",
    "single_instance",
)  # fmt: skip
LANED = ("lane", "cost")
MEMBER = ("flow", "node")
LIMIT_NUMBERS = (
    "declared_at", "declared_running", "declared_tokens", "declared_period", "declared_burst", "chosen_running",
    "chosen_tokens", "chosen_period", "chosen_burst",
)  # fmt: skip
GATE_NUMBERS = ("full_at", "written_at", "shut_until", "shut_for")
PATCH = ("patch_state", "finished_at", "reason", "tombstone", "ran")
ENTRY = ("entry_job", "entry_at", "entry_who", "entry_act", "entry_detail", "entry_ref", "entry_signature")
SPOILT = tuple(
    f"{how}_{n}" for how in ("flipped", "cut") for n in range(6)
)  # 6 x 24 values: as many as records are long
RECORD = ("record", *NUMBERS, "owner", *REST, *FIXED)

COLUMNS = {
    "jobs": (*RECORD, *SPOILT, "id", "sealed", "progress", "live", "ready", "ready_rank", "extra"),
    "finished": (*RECORD, *PATCH, *SPOILT, "id", "ended", "results", "sealed", "older"),
    "attempts": (*RECORD, "runs", "runs_token", "later", "later_at", "live", "unique", "expiring"),
    "sessions": (*RECORD, "session", "expiry", "expires_at", "leases", "owners", "asked"),
    "queues": ("queues", "paused", "count", "total", "counted_state", "ready", "wake"),
    "holds": ("hold", "confirmed", "confirmed_until", "waiters"),
    "limits": ("limit", "limited", *LIMIT_NUMBERS),
    "gates": ("gate", "gated", *GATE_NUMBERS),
    "lanes": (*RECORD, *LANED, *SPOILT, "in_lane", "in_lane_score"),
    "running": (*RECORD, *LANED, "slot", "slot_of_job", "slot_score"),
    "members": (*RECORD, *LANED, *MEMBER, *SPOILT, "id", "listed", "listed_score"),
    "waiting": (*RECORD, *LANED, *MEMBER, *SPOILT, "id", "listed", "waits", "waits_score"),
    "audit": (*ENTRY, "entry", "entry_longer", "audited", "audited_score", "of_ref", "of_ref_score", "of_person"),
    "series": ("sample", "sample_width", "sampled", "sampled_score"),
}


class Record:
    """A record, taken apart."""

    def __init__(self, raw):
        self.patch = None
        if raw[0] == 0:
            (length,) = struct.unpack_from(">I", raw)
            self.patch = msgspec.msgpack.decode(raw[4 : 4 + length])
            raw = raw[4 + length :]
        state, delivery, length = FENCE.unpack_from(raw)
        start = FENCE.size + max(0, length - 1)
        self.owner = raw[FENCE.size : start]
        self.owner_length = length
        flags, suspect, started, due, size = HEADER.unpack_from(raw, start)
        self.numbers = dict(zip(NUMBERS, (state, delivery, flags, suspect, started, due, size), strict=True))
        self.rest = msgspec.msgpack.decode(raw[start + HEADER.size : len(raw) - size])
        self.sealed = raw[len(raw) - size :]

    def put(self, column, value):
        """Whether the value fits there at all."""
        if column == "owner":
            self.owner = as_bytes(value)[:254]
            self.owner_length = 0 if value is None else len(self.owner) + 1
        elif column in NUMBERS:
            limit = {"state": 8, "flags": 8, "suspect": 8, "delivery": 32, "size": 32}.get(column, 64)
            if not isinstance(value, int):
                return False
            self.numbers[column] = value % 2**limit
        elif column in PATCH:
            self.patch[PATCH.index(column)] = value
        elif column in REST:
            self.rest[REST.index(column)] = value
        else:
            self.rest[-1][(*FIXED, *LANED, *MEMBER).index(column)] = value
        return True

    def packed(self):
        n = self.numbers
        raw = FENCE.pack(n["state"], n["delivery"], self.owner_length) + self.owner
        raw += HEADER.pack(n["flags"], n["suspect"], n["started"], n["due"], n["size"])
        raw += packed(self.rest) + self.sealed
        if self.patch is None:
            return raw
        patch = packed(self.patch)
        return struct.pack(">I", len(patch)) + patch + raw


def packed(values):
    """As MessagePack; bytes as text, which is not checked there."""
    if isinstance(values, list):
        return bytes([0x90 + len(values)]) + b"".join(map(packed, values))
    if isinstance(values, bytes):
        return b"\xdb" + struct.pack(">I", len(values)) + values
    return msgspec.msgpack.encode(values)


def as_bytes(value):
    if value is None:
        return b""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


class RedisCells:
    SCENES = (
        SCENES
        | LIMIT_SCENES
        | {"lanes": lanes, "running": running, "members": members, "waiting": waiting}
        | AUDIT_SCENES
        | SERIES_SCENES
    )

    def __init__(self, store):
        self._client = store._server.client()
        self._spoilt = {"flipped": 0, "cut": 0}

    def columns(self, table):
        return list(COLUMNS[table])

    def write(self, cell, row, value):
        """Whether the store took it."""
        table, column = cell
        job_id = row.encode()
        if table in ("sessions", "running"):
            (job_id,) = self._client.smembers(f"{P}leases:{row}")
        if table == "limits":
            return self._write_limit(column, f"job:{row}", value)
        if table == "audit":
            return self._write_entry(column, row, value)
        if table == "gates":
            return self._write_gate(column, f"\n{row}", value)
        if column in (*RECORD, *PATCH, *LANED, *MEMBER):
            return self._write_field(column, job_id, value)
        kind = column.rpartition("_")[0]
        if kind in self._spoilt:
            return self._spoil(kind, job_id)
        return getattr(self, f"_{column}")(row, job_id, value)

    def ids(self):
        """Of every record but tombstones; bytes that are no text are escaped."""
        tombs = set(self._client.zrange(f"{P}tombs", 0, -1))
        return [
            each.decode("utf-8", "backslashreplace") for each in self._client.hkeys(f"{P}jobs") if each not in tombs
        ]

    def _write_field(self, column, job_id, value):
        if column == "record":
            return self._in_hash("jobs", job_id, value)
        record = Record(self._client.hget(f"{P}jobs", job_id))
        if not record.put(column, value):
            return False
        self._client.hset(f"{P}jobs", job_id, record.packed())
        return True

    def _write_limit(self, column, field, value):
        return self._write_row("limits", field, LIMIT, LIMIT_NUMBERS, column, value)

    def _write_gate(self, column, field, value):
        return self._write_row("gates", field, GATE, GATE_NUMBERS, column, value)

    def _write_row(self, key, field, form, names, column, value):
        """A row of numbers: one of them, the whole of it, or its name."""
        if column in names:
            if not isinstance(value, int):
                return False
            numbers = list(form.unpack(self._client.hget(P + key, field)))
            numbers[names.index(column)] = value % 2**64
            return self._in_hash(key, field, form.pack(*numbers))
        if column in ("limit", "gate"):
            return self._in_hash(key, field, value)
        raw = self._client.hget(P + key, field)
        self._client.hdel(P + key, field)
        return value is None or self._in_hash(key, as_bytes(value), raw)

    def _write_entry(self, column, ref, value):
        """An entry of the audit trail: one of its fields, the whole of it, or what names it."""
        (number,) = self._client.zrange(f"{P}audit_ref:{ref}", 0, -1)
        names = {"audited": "audited", "of_ref": f"audit_ref:{ref}", "of_person": "audit_who:ann@host"}
        if column in names:
            return self._member(names[column], number, value)
        if column.endswith("_score"):
            return self._score(names[column.removesuffix("_score")], number, value)
        raw = self._client.hget(f"{P}audit", number)
        if column == "entry_longer":
            return bool(as_bytes(value)) and self._in_hash("audit", number, raw + as_bytes(value))
        if column in ENTRY:
            fields = msgspec.msgpack.decode(raw)
            fields[ENTRY.index(column)] = value
            value = packed(fields)
        return self._in_hash("audit", number, value)

    def _sample_named(self, reporter):
        (name,) = (each for each in self._client.zrange(f"{P}series", 0, -1) if each[8:] == reporter.encode())
        return name

    def _sample(self, reporter, _, value):
        return self._in_hash("series_data", self._sample_named(reporter), value)

    def _sample_width(self, reporter, _, value):
        name = self._sample_named(reporter)
        data = self._client.hget(f"{P}series_data", name)[8:]
        width = struct.pack(">Q", value % 2**64) if isinstance(value, int) else as_bytes(value)
        return self._in_hash("series_data", name, width + data)

    def _sampled(self, reporter, _, value):
        return self._member("series", self._sample_named(reporter), value)

    def _sampled_score(self, reporter, _, value):
        return self._score("series", self._sample_named(reporter), value)

    def _spoil(self, kind, job_id):
        at = self._spoilt[kind]
        self._spoilt[kind] += 1
        raw = bytearray(self._client.hget(f"{P}jobs", job_id))
        if at >= len(raw):
            return False
        if kind == "cut":
            del raw[at:]
        else:
            raw[at] ^= 1 << (at * 5 % 8)
        self._client.hset(f"{P}jobs", job_id, bytes(raw))
        return True

    # What each kind of key holds

    def _in_hash(self, key, field, value):
        if value is None:
            return bool(self._client.hdel(P + key, field))
        self._client.hset(P + key, field, as_bytes(value))
        return True

    def _member(self, key, member, value, score=0.0):
        """Another member in place of this one."""
        assert self._client.zrem(P + key, member), f"{key} does not hold {member}"
        if value is not None:
            self._client.zadd(P + key, {as_bytes(value): score})
        return True

    def _score(self, key, member, value):
        if not isinstance(value, int | float):
            return False
        self._client.zadd(P + key, {member: float(value)})
        return True

    def _in_set(self, key, member, value):
        self._client.srem(P + key, member)
        if value is not None:
            self._client.sadd(P + key, as_bytes(value))
        return True

    def _ready_member(self, queue, job_id):
        (member,) = (each for each in self._client.zrange(f"{P}ready:{queue}", 0, -1) if each.endswith(job_id))
        return member

    def _id(self, _, job_id, value):
        """The record under another name."""
        raw = self._client.hget(f"{P}jobs", job_id)
        self._client.hdel(f"{P}jobs", job_id)
        if value is not None:
            self._client.hset(f"{P}jobs", as_bytes(value), raw)
        return True

    def _extra(self, _, job_id, value):
        self._client.hset(f"{P}jobs", job_id, self._client.hget(f"{P}jobs", job_id) + as_bytes(value))
        return bool(as_bytes(value))

    def _sealed(self, _, job_id, value):
        return self._in_hash("sealed", job_id, value)

    def _progress(self, _, job_id, value):
        return self._in_hash("progress", job_id, value)

    def _results(self, _, job_id, value):
        return self._in_hash("results", job_id, value)

    def _older(self, _, job_id, value):
        return self._in_hash("older", job_id, value)

    def _unique(self, _, job_id, value):
        return self._in_hash("unique", job_id, value)

    def _live(self, _, job_id, value):
        return self._member("live", job_id, value)

    def _ended(self, _, job_id, value):
        return self._member("ended:5", job_id, value)

    def _ready(self, row, job_id, value):
        if row.startswith("paused"):
            (member,) = self._client.zrange(f"{P}ready:{row}", 0, -1)
            return self._member(f"ready:{row}", member, value)
        return self._member("ready:default", self._ready_member("default", job_id), value)

    def _ready_rank(self, _, job_id, value):
        return self._score("ready:default", self._ready_member("default", job_id), value)

    def _in_lane(self, _, job_id, value):
        return self._member("lanes:default", self._named("lanes:default", job_id), value)

    def _in_lane_score(self, _, job_id, value):
        return self._score("lanes:default", self._named("lanes:default", job_id), value)

    def _listed(self, _, job_id, value):
        return self._member(self._of_node("members", job_id), job_id, value)

    def _listed_score(self, _, job_id, value):
        return self._score(self._of_node("members", job_id), job_id, value)

    def _waits(self, _, job_id, value):
        return self._member(self._of_node("waiting", job_id), job_id, value)

    def _waits_score(self, _, job_id, value):
        return self._score(self._of_node("waiting", job_id), job_id, value)

    def _of_node(self, kind, job_id):
        flow, node = Record(self._client.hget(f"{P}jobs", job_id)).rest[-1][-len(MEMBER) :]
        return f"{kind}:{flow}\n{node}"

    def _slot(self, _, job_id, value):
        return self._member("running", self._named("running", job_id), value)

    def _slot_of_job(self, _, job_id, value):
        return self._member("running", self._named("running", job_id, which=-1), value)

    def _slot_score(self, _, job_id, value):
        return self._score("running", self._named("running", job_id), value)

    def _named(self, key, job_id, which=0):
        return [each for each in self._client.zrange(P + key, 0, -1) if each.endswith(job_id)][which]

    def _later(self, _, job_id, value):
        """It waits for its second time, or is due again already."""
        if not self._client.zrem(f"{P}later:abandoned", job_id):
            assert self._client.zrem(f"{P}ready:abandoned", self._ready_member("abandoned", job_id))
        if value is not None:
            self._client.zadd(f"{P}later:abandoned", {as_bytes(value): 0.0})
        return True

    def _later_at(self, _, job_id, value):
        return self._score("later:abandoned", job_id, value)

    def _expiring(self, _, job_id, value):
        self._client.zadd(f"{P}expiring:abandoned", {as_bytes(value): 0.0})
        return True

    def _runs(self, _, job_id, value):
        return self._in_hash(f"runs:{job_id.decode()}", b"1", value)

    def _runs_token(self, _, job_id, value):
        return self._in_hash(f"runs:{job_id.decode()}", as_bytes(value), b"\x90")

    def _session(self, owner, _, value):
        return self._in_hash("sessions", owner, value)

    def _expiry(self, owner, _, value):
        return self._member("expiry", owner, value)

    def _expires_at(self, owner, _, value):
        return self._score("expiry", owner, value)

    def _leases(self, owner, job_id, value):
        return self._in_set(f"leases:{owner}", job_id, value)

    def _owners(self, owner, _, value):
        return self._in_set("owners", owner, value)

    def _asked(self, owner, _, value):
        return self._in_set(f"asked:{owner}", b"", value)

    def _queues(self, name, _, value):
        return self._member("queues", name, value)

    def _paused(self, name, _, value):
        return self._in_set("paused", name, value)

    def _count(self, name, _, value):
        return self._in_hash(f"counts:{name}", b"2", value)

    def _counted_state(self, name, _, value):
        return self._in_hash(f"counts:{name}", as_bytes(value), b"1")

    def _total(self, _, __, value):
        return self._in_hash("counts", b"2", value) if value is not None else self._in_hash("counts", b"one", b"two")

    def _wake(self, name, _, value):
        return bool(self._client.set(f"{P}wake:{name}", as_bytes(value)))

    def _key_of(self, job_id):
        raw = Record(self._client.hget(f"{P}jobs", job_id))
        return "once:" + raw.rest[-1][FIXED.index("idempotency_key")]

    def _hold(self, _, job_id, value):
        return self._in_hash("holds", self._key_of(job_id), value)

    def _confirmed(self, _, job_id, value):
        return self._member("confirmed", self._key_of(job_id), value)

    def _confirmed_until(self, _, job_id, value):
        return self._score("confirmed", self._key_of(job_id), value)

    def _waiters(self, _, job_id, value):
        self._client.zadd(f"{P}waiters:{self._key_of(job_id)}", {as_bytes(value): 0.0})
        return True
