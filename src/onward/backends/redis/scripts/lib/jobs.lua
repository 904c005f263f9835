-- Live jobs: reading them, moving them between states, ending them.  A live job's state and due time are changed only by
-- `place` and `finish`, which keep the indexes true.

local jobs = {}  -- by id, as they are now; false: no such live job
local raws = {}  -- by id, as they were read, of those that were not taken apart yet

-- Reads at once what will be looked at one by one.
local function load(ids)
  local missing = {}
  for _, id in ipairs(ids) do
    if jobs[id] == nil then missing[#missing + 1] = id end
  end
  hmget('jobs', missing, raws)
end

local function job(id)
  local record = jobs[id]
  if record == nil then
    local raw = raws[id]
    if raw == nil then raw = redis.call('HGET', P .. 'jobs', id) end
    record = raw and is_live(raw) and taken_apart(id, raw)
    jobs[id] = record
  end
  return record
end

-- The live job that an index names.
local function named(id)
  local record = job(id)
  if not record then damaged[#damaged + 1] = id end
  return record
end

-- The finished job of this id; where another one lives under the id again, it was put aside, with what both would keep.
local function finished_record(id)
  local raw = hget('jobs', id)
  if not raw or not is_live(raw) then return raw end
  local older = hget('older', id)
  local put_aside = older and unpacked(older)
  return type(put_aside) == 'string' and put_aside
end

local function hold_keys(record)
  local keys, carried = {}, fixed(record)
  if carried[FIELD.IDEMPOTENCY_KEY] then keys[1] = 'once:' .. carried[FIELD.IDEMPOTENCY_KEY] end
  if carried[FIELD.SINGLE_INSTANCE] then keys[#keys + 1] = 'single:' .. carried[FIELD.SINGLE_INSTANCE] end
  return keys
end

local function waits_for_a_key(record)
  return record[STATE] == SCHEDULED and record[WAITS] > 0 and not record[PARKED_SINCE] and is(record, HAS_HOLDS)
end

-- Where a job stands in the order of claims: the score is its rank, equal scores sort by due time and id.
local function index(record, now)
  local id, queue, state = record.id, record[QUEUE], record[STATE]
  if state == AVAILABLE and is(record, HAS_LANE) then
    lanes.index(record, 0)
    lanes.wakes(queue)
  elseif state == AVAILABLE then
    zset('ready:' .. queue, due(record[AT]) .. id, record[RANK])
    wakes[queue] = wakes[queue] or true
  elseif state == EXECUTING then
    set('leases:' .. record[OWNER], id, true)
    set('owners', record[OWNER], true)
    if record[CANCEL_REASON] then set('asked:' .. record[OWNER], id, true) end
    if is(record, HAS_LANE) then lanes.count(record, 0) end
  elseif is(record, IS_BOOKED) then
    lanes.book(record, record[AT])
  elseif not is(record, AWAITS_NODE) then
    zset('later:' .. queue, id, record[AT])
    if record[AT] - now < SOON then wakes[queue] = SOON end
    if waits_for_a_key(record) then
      for _, key in ipairs(hold_keys(record)) do zset('waiters:' .. key, due(record[AT]) .. id, record[RANK]) end
    end
  end
  if is(record, IS_MEMBER) then flows.index(record, 0) end
  if state ~= EXECUTING and is(record, EXPIRES) then zset('expiring:' .. queue, id, fixed(record)[FIELD.EXPIRES_AT]) end
end

local function unindex(record)
  local id, queue, state = record.id, record[QUEUE], record[STATE]
  if state == AVAILABLE and is(record, HAS_LANE) then
    lanes.index(record, false)
  elseif state == AVAILABLE then
    zset('ready:' .. queue, due(record[AT]) .. id, false)
  elseif state == EXECUTING then
    set('leases:' .. record[OWNER], id, false)
    if record[CANCEL_REASON] then set('asked:' .. record[OWNER], id, false) end
    if is(record, HAS_LANE) then
      lanes.count(record, false)
      lanes.wakes(queue)  -- a slot is free
    end
  elseif is(record, IS_BOOKED) then
    lanes.book(record, false)
    record[FLAGS] = record[FLAGS] - IS_BOOKED
  elseif not is(record, AWAITS_NODE) then
    zset('later:' .. queue, id, false)
    if waits_for_a_key(record) then
      for _, key in ipairs(hold_keys(record)) do zset('waiters:' .. key, due(record[AT]) .. id, false) end
    end
  end
  if is(record, IS_MEMBER) then flows.index(record, false) end
  if state ~= EXECUTING and is(record, EXPIRES) then zset('expiring:' .. queue, id, false) end
end

local function save(record)
  hash('jobs', record.id, encode(record))
end

-- Another live state; `change` sets the fields that decide where the job then stands.
local function place(record, state, now, change)
  unindex(record)
  count(record[QUEUE], record[STATE], -1)
  record[STATE], record[OWNER] = state, nil
  record[FLAGS] = band(record[FLAGS], bit.bnot(AWAITS_NODE + IS_DELAYED))
  if change then
    for field, value in pairs(change) do record[field] = value end
  end
  index(record, now)
  count(record[QUEUE], state, 1)
  save(record)
end

local function ask_to_cancel(record, reason)
  if not record[CANCEL_REASON] then
    record[CANCEL_REASON] = reason
    set('asked:' .. record[OWNER], record.id, true)
    save(record)
  end
end

local function free_key(record)
  if is(record, IS_UNIQUE) then
    local key = fixed(record)[FIELD.UNIQUE_KEY]
    if hget('unique', key) == record.id then hash('unique', key, false) end
  end
end

-- Dead jobs by group.
local deaths = {}

-- Where a dead job stands among those of its group.
function deaths.member(record)
  return fixed(record)[FIELD.JOB] .. '\0' .. record.died .. '\0' .. record.id
end

-- Out of the indexes of the finished.
local function forget_finished(id, raw)
  local old = decode_finished(id, raw)
  if old[TOMB] == 1 then
    zset('tombs', id, false)
  else
    zset('ended:' .. old[STATE], id, false)
    count(old[QUEUE], old[STATE], -1)
    if old.died then zset('deaths', deaths.member(old), false) end
    if is(old, IS_MEMBER) then flows.forget(old) end
  end
  hash('results', id, false)
  return old
end

-- Among the finished.  A tombstone keeps no sealed bytes.  `died`: the fingerprint of a job that is discarded.
local function finish(record, state, now, reason, result, tomb, ran, died)
  local id = record.id
  unindex(record)
  free_key(record)
  count(record[QUEUE], record[STATE], -1)
  if is(record, IS_AGAIN) then
    local raw = finished_record(id)
    if raw and taken_apart(id, raw, decode_finished) then forget_finished(id, raw) end
    hash('older', id, false)
    record[FLAGS] = record[FLAGS] - IS_AGAIN
  end
  if is(record, AWAITS) then
    record[FLAGS] = record[FLAGS] - AWAITS
    hash('awaits', id, false)
  end
  if tomb then
    if record[SIZE] == 0 then hash('sealed', id, false) end
    record[FIXED], record[SIZE] = sub(record[FIXED], 1, -record[SIZE] - 1), 0
  end
  record[CANCEL_REASON] = nil
  jobs[id] = false
  zset('live', id, false)
  hash('jobs', id, patch(state, now, reason, tomb, ran, died) .. encode(record))
  record[STATE], record.died = state, died
  if died then zset('deaths', deaths.member(record), 0) end
  ended = ended + 1
  if is(record, IS_MEMBER) then flows.ended(record, tomb) end
  if tomb then
    zset('tombs', id, 0)
  else
    zset('ended:' .. state, id, 0)
    count(record[QUEUE], state, 1)
    if result then hash('results', id, result) end
  end
end
