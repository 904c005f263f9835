"""The engine by hand: Onward's own keys, the same writes by a script of their own, and nothing around them.

`claim + keep` claims a batch and puts the one before among the finished jobs, in one script and one round trip: what a turn
writes.  `claim + delete` forgets them instead, for scale.  There are no threads, no envelopes opened, no fences, no
sessions, no holds, no pauses: only the commands that every job costs.
"""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from bench.body import noop, payload
from bench.contenders import aio, on_redis
from onward.backends.redis.packing import plain_batch
from onward.job.envelope import Letter, seal

BATCH = 500
# Whether finished jobs are kept, and how many such processes.
CONFIGS = {
    "claim + keep, batch 500, 1 process": (True, 1),
    "claim + keep, batch 500, 2 processes": (True, 2),
    "claim + delete, batch 500, 1 process": (False, 1),
    "claim + delete, batch 500, 2 processes": (False, 2),
}

_NOW = 1_763_200_000_000_000
_PREFIX = "{onward}"
# Ids, owners, times and payloads are as long as Onward's own.
_LETTER = Letter(
    id="0" * 32,
    namespace="default",
    queue="default",
    job="work",
    max_retries=0,
    max_crashes=3,
    enqueued_at=_NOW,
    payload=msgspec.Raw(msgspec.json.encode(payload(1))),
)
_AVAILABLE = 2
_DUE = struct.pack(">Q", _NOW)
_numbers = itertools.count()

_TURN = """
local P, owner, batch, keep = KEYS[1] .. ':', ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1'
local sub = string.sub
local records, places = {}, {}

if #ARGV > 3 then
  local done = {unpack(ARGV, 4)}
  redis.call('SREM', P .. 'leases:' .. owner, unpack(done))
  redis.call('ZREM', P .. 'live', unpack(done))
  if keep then
    local found = redis.call('HMGET', P .. 'jobs', unpack(done))
    local time = redis.call('TIME')
    local packed = '\\149' .. cmsgpack.pack(5, time[1] * 1000000 + time[2], nil, 0, 1)
    local patch = struct.pack('>I4', #packed) .. packed
    for at, raw in ipairs(found) do
      records[2 * at - 1], records[2 * at] = done[at], patch .. raw
      places[2 * at - 1], places[2 * at] = '0', done[at]
    end
    redis.call('HSET', P .. 'jobs', unpack(records))
    redis.call('ZADD', P .. 'ended:5', unpack(places))
  else
    redis.call('HDEL', P .. 'jobs', unpack(done))
  end
  redis.call('HINCRBY', P .. 'counts', 3, -#done)
  redis.call('HINCRBY', P .. 'counts', 5, #done)
end

local members, ids = redis.call('ZRANGE', P .. 'ready:default', 0, batch - 1), {}
if #members == 0 then return {} end
for at, member in ipairs(members) do ids[at] = sub(member, 9) end
local found = redis.call('HMGET', P .. 'jobs', unpack(ids))
local time = redis.call('TIME')
local started = struct.pack('>I8', time[1] * 1000000 + time[2])
local head = struct.pack('>BI4', 3, 1) .. string.char(#owner + 1) .. owner .. '\\0\\0' .. started
local claimed, leases = {}, {}
for at, raw in ipairs(found) do
  raw = head .. sub(raw, 17)
  claimed[2 * at - 1], claimed[2 * at] = ids[at], raw
end
redis.call('ZREMRANGEBYRANK', P .. 'ready:default', 0, #ids - 1)
redis.call('HSET', P .. 'jobs', unpack(claimed))
redis.call('SADD', P .. 'leases:' .. owner, unpack(ids))
redis.call('HINCRBY', P .. 'counts', 2, -#ids)
redis.call('HINCRBY', P .. 'counts', 3, #ids)
return claimed
"""


def reset() -> None:
    on_redis.fresh()


@contextmanager
def opened() -> Iterator[Any]:
    with on_redis.client() as client:
        yield client


def enqueue(client: Any, n: int) -> None:
    for _ in range(n):
        _put(client, 1)


def bulk(client: Any, n: int) -> None:
    for start in range(0, n, aio.BATCH):
        _put(client, min(aio.BATCH, n - start))


def processes(config: str) -> int:
    return CONFIGS[config][1]


def serve(config: str) -> None:
    keep, _ = CONFIGS[config]
    owner = f"{random.getrandbits(128):032x}"
    job: dict[str, Any] = payload(1)
    done: list[bytes] = []
    with on_redis.client() as client:
        turn = client.register_script(_TURN)
        while True:
            rows = turn(keys=[_PREFIX], args=[owner, BATCH, int(keep), *done])
            done = rows[::2]
            for _ in done:
                noop(job)


def _put(client: Any, n: int) -> None:
    """One transaction of commands that take many."""
    ids = [f"{next(_numbers):032x}".encode() for _ in range(n)]
    with client.pipeline() as pipe:
        pipe.hset(f"{_PREFIX}:jobs", mapping=dict.fromkeys(ids, _RECORD))
        pipe.zadd(f"{_PREFIX}:live", dict.fromkeys(ids, 0))
        pipe.zadd(f"{_PREFIX}:ready:default", {_DUE + each: 0 for each in ids})
        pipe.hincrby(f"{_PREFIX}:counts", str(_AVAILABLE), n)
        pipe.execute()


def _record() -> bytes:
    batch = plain_batch([seal(_LETTER)])
    assert batch is not None
    _, rest, sealed = batch
    return struct.pack(">BIBBBQQI", _AVAILABLE, 0, 0, 0, 0, 0, _NOW, len(sealed)) + rest + sealed


_RECORD = _record()
