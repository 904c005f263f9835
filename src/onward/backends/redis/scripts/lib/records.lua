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

-- What a worker may have counted, and when.
local LARGEST_COUNT, LAST_INSTANT = 2147483647, 253402300799999999

local function is_text(value)
  return value == nil or type(value) == 'string'
end

-- A comparison with what is no number fails, too.
local function is_within(value, lowest, highest)
  return value >= lowest and value <= highest and value % 1 == 0
end

local function fixed(record)
  if not record.fixed then
    record.fixed = {unpack({cmsgpack.unpack_limit(record[FIXED], 8, 1)}, 2, 9)}
  end
  return record.fixed
end

local decode
do
  -- Fails if a record that was taken apart is not whole: no other function checks it again.
  local function check(record, is_over)
    local carried, parked, expires_at = fixed(record), record[PARKED], fixed(record)[EXPIRES_AT]
    assert(type(record[QUEUE]) == 'string' and is_text(record[ASKED]) and is_text(record[SPENT])
      and is_within(record[RANK], -100, 100) and is_within(record[ATTEMPTS], 0, LARGEST_COUNT)
      and is_within(record[CRASHES], 0, LARGEST_COUNT) and is_within(record[INTERRUPTIONS], 0, LARGEST_COUNT)
      and is_within(record[WAITS], 0, LARGEST_COUNT) and record[DELIVERY] < LARGEST_COUNT
      and (parked == nil or is_within(parked, 0, LAST_INSTANT)) and record[AT] <= LAST_INSTANT
      and is_within(record[STATE], SCHEDULED, RETRYABLE) and (record[STATE] ~= EXECUTING or is_over or record[OWNER])
      and #record[FIXED] > record[SIZE], 'a record is damaged')
    assert(type(carried[JOB]) == 'string' and is_within(carried[MAX_CRASHES], 1, LARGEST_COUNT)
      and is_text(carried[UNIQUE_KEY]) and is_text(carried[ONCE]) and is_text(carried[SINGLE])
      and is_within(carried[ONCE_TTL], 0, LAST_INSTANT)
      and (expires_at == nil or is_within(expires_at, 0, LAST_INSTANT))
      and (band(record[FLAGS], EXPIRES) == 0 or expires_at)
      and (band(record[FLAGS], IS_UNIQUE) == 0 or carried[UNIQUE_KEY]), 'what never changes is damaged')
    return record
  end

  function decode(id, raw, is_over)
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
    return check(record, is_over)
  end
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
  local record = decode(id, sub(raw, 5 + length), true)
  local _, state, now, reason, tomb, ran = cmsgpack.unpack_limit(raw, 5, 5)
  record[STATE], record[ENDED], record[REASON], record[TOMB] = state, now, reason, tomb
  assert(is_within(state, COMPLETED, CANCELLED) and is_within(now, 0, LAST_INSTANT) and is_text(reason)
    and is_within(tomb, 0, 1), 'the end of a record is damaged')
  record[ATTEMPTS] = record[ATTEMPTS] + ran
  return record
end

-- Ids whose records cannot be taken apart, or that an index names wrongly.  A script that writes all at once fails instead,
-- and has done nothing: `set_aside_and_repeat` sets them aside and calls it again.
local damaged, is_lenient = {}, false

local function taken_apart(id, raw, how)
  local is_whole, record = pcall(how or decode, id, raw)
  if is_whole then return record end
  damaged[#damaged + 1] = id
  return false
end

local function unpacked(raw)
  local is_whole, first, second, third = pcall(cmsgpack.unpack, raw)
  if is_whole then return first, second, third end
end

local function is(record, flag)
  return band(record[FLAGS], flag) ~= 0
end
