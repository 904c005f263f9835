-- A job's record.
--
--   state 1 | delivery 4 | owner 1+n | flags 1 | suspect 1 | started 8 | due 8 | size 4
--   | MessagePack: the rest, and what never changes | sealed bytes, if they are few
--
-- Bytes, big end first; an owner's length is written plus one, and 0 stands for none.  The size is that of the sealed bytes;
-- where it is 0 they lie elsewhere, so that what is large is not written with every move.  What a claim and a success change
-- has fixed places: the usual job is moved by cutting and joining strings, without being taken apart.
--
-- A finished job is its last live record behind a patch, in the same hash.  No live record begins with a 0, every patch does:
--
--   length 4 | MessagePack: state, end, reason, tombstone, ran

-- Places in a record that was taken apart; the first holds the packed fields that never change, and the sealed bytes.
local FIXED, QUEUE, RANK, ATTEMPTS, CRASHES, INTERRUPTIONS, WAITS, PARKED, ASKED, SPENT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local STATE, DELIVERY, OWNER, FLAGS, STARTED, AT, SIZE, ENDED, REASON, TOMB = 11, 12, 13, 14, 15, 16, 17, 18, 19, 20
-- Places among the fields that never change.
local JOB, ENQUEUED, MAX_CRASHES, EXPIRES_AT, UNIQUE_KEY, ONCE, ONCE_TTL, SINGLE = 1, 2, 3, 4, 5, 6, 7, 8

-- Flags; a job that was asked to cancel is marked, too, for it is not the usual job.
local IS_UNIQUE, HAS_HOLDS, EXPIRES, IS_AGAIN, IS_ASKED = 1, 2, 4, 8, 16

local function owner_bytes(owner)
  return owner and char(#owner + 1) .. owner or '\0'
end

local function decode(id, raw)
  local state, delivery, length = struct.unpack('>BI4B', raw)
  local owner
  if length > 0 then
    owner = sub(raw, 7, 5 + length)
    length = length - 1
  end
  local flags, _, started, at, size, rest = struct.unpack('>BBI8I8I4', raw, 7 + length)
  local record = {cmsgpack.unpack_limit(raw, 9, rest)}
  record[FIXED] = sub(raw, record[FIXED] + 1)
  record[STATE], record[DELIVERY], record[OWNER], record[FLAGS], record[AT] = state, delivery, owner, flags, at
  record[STARTED], record[SIZE] = started ~= 0 and started or nil, size
  record.id = id
  return record
end

local function encode(record)
  local flags = band(record[FLAGS], IS_ASKED - 1) + (record[ASKED] and IS_ASKED or 0)
  return struct.pack('>BI4', record[STATE], record[DELIVERY]) .. owner_bytes(record[OWNER])
    .. struct.pack('>BBI8I8I4', flags, record[CRASHES] > 0 and 1 or 0, record[STARTED] or 0, record[AT], record[SIZE])
    .. '\154' .. cmsgpack.pack(unpack(record, QUEUE, SPENT)) .. record[FIXED]
end

local function patch(state, now, reason, tomb, ran)
  local packed = '\149' .. cmsgpack.pack(state, now, reason, tomb and 1 or 0, ran and 1 or 0)
  return struct.pack('>I4', #packed) .. packed
end

local function is_live(raw)
  return byte(raw) ~= 0
end

local function decode_finished(id, raw)
  local length = struct.unpack('>I4', raw)
  local record = decode(id, sub(raw, 5 + length))
  local _, state, now, reason, tomb, ran = cmsgpack.unpack_limit(raw, 5, 5)
  record[STATE], record[ENDED], record[REASON], record[TOMB] = state, now, reason, tomb
  record[ATTEMPTS] = record[ATTEMPTS] + ran
  return record
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
