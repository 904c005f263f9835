-- A job's record: one MessagePack array, the same for live and finished jobs.  What never changes stands at its end and is
-- carried along unread.  KEYS[1] is the prefix of every key; it holds the hash tag, so all of them lie in one slot.

local P = KEYS[1] .. ':'
local A = cmsgpack.unpack(ARGV[1])
local min, sub, band = math.min, string.sub, bit.band

-- Places in a record as it is unpacked; the first holds the packed fields that never change.
local FIXED, AT, STATE, QUEUE, RANK, DELIVERY, ATTEMPTS, CRASHES, INTERRUPTIONS, WAITS = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local STARTED, PARKED, OWNER, FLAGS, ASKED, SPENT, ENDED, REASON, TOMB = 11, 12, 13, 14, 15, 16, 17, 18, 19
-- Places among the fields that never change.
local JOB, ENQUEUED, MAX_CRASHES, EXPIRES_AT, UNIQUE_KEY, ONCE, ONCE_TTL, SINGLE = 1, 2, 3, 4, 5, 6, 7, 8

local SCHEDULED, AVAILABLE, EXECUTING, RETRYABLE, COMPLETED, DISCARDED, CANCELLED = 1, 2, 3, 4, 5, 6, 7
local IS_UNIQUE, HAS_HOLDS, EXPIRES, IS_AGAIN = 1, 2, 4, 8  -- flags; the last: an older job of this id is among the finished

local HEAD, HEAD_LENGTH, FIELDS = '\220\0\19', 3, 18

local function decode(id, raw)
  local record = {cmsgpack.unpack_limit(raw, FIELDS, HEAD_LENGTH)}
  record[FIXED] = sub(raw, record[FIXED] + 1)
  record.id = id
  return record
end

local function encode(record)
  return HEAD .. cmsgpack.pack(unpack(record, AT, TOMB)) .. record[FIXED]
end

local function fixed(record)
  if not record.fixed then
    record.fixed = {unpack({cmsgpack.unpack_limit(record[FIXED], 8, 1)}, 2, 9)}
  end
  return record.fixed
end

local function is(record, flag)
  return band(record[FLAGS], flag) ~= 0
end

-- The store's clock, unless the caller brought one that tests can move.
local function instant(given)
  if given then return given end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Sorts like the number, as text of equal scores does.
local function due(at)
  return struct.pack('>I8', at)
end
