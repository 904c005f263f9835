-- A job's record.  Its layout is in `layout.py`, which also names the states, the flags, the fields of the packed part and the
-- first bytes of those with fixed places (`FROM.size`).

-- Places of the other fields in a record that was taken apart.
local STATE, DELIVERY, OWNER, FLAGS, STARTED, AT, SIZE, ENDED, REASON, TOMB = 11, 12, 13, 14, 15, 16, 17, 18, 19, 20

local function is_text(value)
  return value == nil or type(value) == 'string'
end

-- A comparison with what is no number fails, too.
local function is_within(value, lowest, highest)
  return value >= lowest and value <= highest and value % 1 == 0
end

local function all_but_first(_, ...) return {...} end

local function fixed(record)
  if not record.fixed then
    local last = FIELD.SINGLE_INSTANCE
    if band(record[FLAGS], IS_MEMBER) ~= 0 then
      last = FIELD.NODE
    elseif band(record[FLAGS], HAS_LANE) ~= 0 then
      last = FIELD.COST
    end
    record.fixed = all_but_first(cmsgpack.unpack_limit(record[FIXED], last, 1))
  end
  return record.fixed
end

local decode
do
  local function is_lane(lane, cost)
    return type(lane) == 'string' and string.find(lane, '^[^/%z]*/[^%z]*$') and byte(lane) < 244
      and (cost == nil or is_within(cost, 1, LARGEST_COUNT))
  end

  -- Whether what marks a member, and one whose node waits, is all there.
  local function is_member(flags, carried, state)
    if band(flags, IS_MEMBER) == 0 then return band(flags, AWAITS_NODE + IS_DELAYED) == 0 end
    return type(carried[FIELD.FLOW]) == 'string' and type(carried[FIELD.NODE]) == 'string'
      and (band(flags, AWAITS_NODE) == 0 and band(flags, IS_DELAYED) == 0 or state == SCHEDULED)
  end

  -- Fails if a record that was taken apart is not whole: no other function checks it again.
  local function check(record, is_over)
    local carried, parked, expires_at = fixed(record), record[PARKED_SINCE], fixed(record)[FIELD.EXPIRES_AT]
    assert(type(record[QUEUE]) == 'string' and is_text(record[CANCEL_REASON]) and is_text(record[SPENT])
      and is_within(record[RANK], -100, 100) and is_within(record[ATTEMPTS], 0, LARGEST_COUNT)
      and is_within(record[CRASHES], 0, LARGEST_COUNT) and is_within(record[INTERRUPTIONS], 0, LARGEST_COUNT)
      and is_within(record[WAITS], 0, LARGEST_COUNT) and record[DELIVERY] < LARGEST_COUNT
      and (parked == nil or is_within(parked, 0, LAST_INSTANT)) and record[AT] <= LAST_INSTANT
      and is_within(record[STATE], SCHEDULED, RETRYABLE) and (record[STATE] ~= EXECUTING or is_over or record[OWNER])
      and #record[FIXED] > record[SIZE], 'a record is damaged')
    assert(type(carried[FIELD.JOB]) == 'string' and is_within(carried[FIELD.MAX_CRASHES], 1, LARGEST_COUNT)
      and is_text(carried[FIELD.UNIQUE_KEY]) and is_text(carried[FIELD.IDEMPOTENCY_KEY]) and is_text(carried[FIELD.SINGLE_INSTANCE])
      and is_within(carried[FIELD.IDEMPOTENCY_TTL], 0, LAST_INSTANT)
      and (expires_at == nil or is_within(expires_at, 0, LAST_INSTANT))
      and (band(record[FLAGS], EXPIRES) == 0 or expires_at)
      and (band(record[FLAGS], IS_UNIQUE) == 0 or carried[FIELD.UNIQUE_KEY])
      and (band(record[FLAGS], HAS_LANE) == 0 or is_lane(carried[FIELD.LANE], carried[FIELD.COST]))
      and is_member(record[FLAGS], carried, record[STATE]), 'what never changes is damaged')
    return record
  end

  function decode(id, raw, is_over)
    local state, delivery, length = struct.unpack(FORMAT.fence, raw)
    local owner
    if length > 0 then
      length = length - 1
      owner = sub(raw, FROM.flags, FROM.flags + length - 1)
    end
    local flags, started, at, size, rest = struct.unpack(FORMAT.header, raw, FROM.flags + length)
    local after, queue, rank, attempts, crashes, interruptions, waits, parked_since, cancel_reason, spent =
      cmsgpack.unpack_limit(raw, SPENT - FIXED, rest)
    -- In the order of the places, and at once: a table that grows is copied each time.
    return check({
      sub(raw, after + 1), queue, rank, attempts, crashes, interruptions, waits, parked_since, cancel_reason, spent,
      state, delivery, owner, flags, started ~= 0 and started or nil, at, size, id = id, fixed = false,
    }, is_over)
  end
end

-- A job that was asked to cancel, or crashed, is flagged, too, for it is not the usual job.
local function encode(record)
  local flags = band(record[FLAGS], bit.bnot(IS_ASKED + IS_SUSPECT)) + (record[CANCEL_REASON] and IS_ASKED or 0)
    + (record[CRASHES] > 0 and IS_SUSPECT or 0)
  return fence(record[STATE], record[DELIVERY], record[OWNER])
    .. struct.pack(FORMAT.header, flags, record[STARTED] or 0, record[AT], record[SIZE])
    .. ARRAY.rest .. cmsgpack.pack(unpack(record, QUEUE, SPENT)) .. record[FIXED]
end

local function is_live(raw)
  return byte(raw) ~= 0
end

local function decode_finished(id, raw)
  local length = struct.unpack(FORMAT.length, raw)
  local record = decode(id, sub(raw, FROM.patch + length), true)
  local fields = sub(raw, FROM.patch, FROM.patch) == ARRAY.death and 6 or 5
  local _, state, now, reason, tomb, ran, died = cmsgpack.unpack_limit(raw, fields, FROM.patch)
  record[STATE], record[ENDED], record[REASON], record[TOMB], record.died = state, now, reason, tomb, died
  assert(is_within(state, COMPLETED, CANCELLED) and is_within(now, 0, LAST_INSTANT) and is_text(reason)
    and is_within(tomb, 0, 1) and is_text(died), 'the end of a record is damaged')
  record[ATTEMPTS] = record[ATTEMPTS] + ran
  return record
end

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
