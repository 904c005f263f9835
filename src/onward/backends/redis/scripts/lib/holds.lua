-- Idempotency keys and single instances: pointers from a key to (job id, token), and until when a success confirmed it.

local FREE, HELD, BUSY, DONE = 0, 1, 2, 3

local function pointer_of(key)
  local raw = hget('holds', key)
  if not raw then return nil end
  local id, token, till = unpacked(raw)
  local is_whole = type(id) == 'string' and type(token) == 'number' and (till == nil or type(till) == 'number')
  return is_whole and {id = id, token = token, till = till}  -- one that cannot be read holds nothing
end

local function point(key, id, token, till)
  hash('holds', key, cmsgpack.pack(id, token, till))
end

local function is_valid(pointer)
  local holder = job(pointer.id)
  return holder and holder[STATE] == EXECUTING and holder[DELIVERY] == pointer.token
end

-- All keys of a job that was just claimed, or none of them: done beats busy beats held.
local function take_holds(record, now)
  if not is(record, HAS_HOLDS) then return FREE end
  local keys, busy = hold_keys(record), nil
  for _, key in ipairs(keys) do
    local pointer = pointer_of(key)
    if pointer and pointer.till then
      if pointer.till > now then return DONE, pointer.id end
    elseif pointer and not busy and is_valid(pointer) then
      busy = pointer.id
    end
  end
  if busy then return BUSY, busy end
  for _, key in ipairs(keys) do point(key, record.id, record[DELIVERY]) end
  return HELD
end

-- What a lease that changes its owner holds: its pointers were taken when it was claimed.
local function hold_of(record, now)
  if not is(record, HAS_HOLDS) then return FREE end
  for _, key in ipairs(hold_keys(record)) do
    local pointer = pointer_of(key)
    if not pointer or pointer.id ~= record.id or pointer.token ~= record[DELIVERY] then return take_holds(record, now) end
  end
  return HELD
end

local function wake_waiters(key, over, now, all)
  flush()  -- a job that this very script put back waits too
  for _, member in ipairs(redis.call('ZRANGE', P .. 'waiters:' .. key, 0, all and -1 or 1)) do
    local waiter = job(sub(member, 9))
    if waiter and waiter.id ~= over.id then
      place(waiter, AVAILABLE, now, {[AT] = now})
      if not all then return end
    end
  end
end

-- The lease is over: confirm or drop what it held, and make the jobs due that wait for it.
local function end_holds(record, now, confirmed)
  if not is(record, HAS_HOLDS) then return end
  for _, key in ipairs(hold_keys(record)) do
    local pointer = pointer_of(key)
    if pointer and pointer.id == record.id and pointer.token == record[DELIVERY] and not pointer.till then
      local once = sub(key, 1, 5) == 'once:'
      if confirmed and once then
        local till = now + fixed(record)[FIELD.IDEMPOTENCY_TTL]
        point(key, record.id, record[DELIVERY], till)
        zset('confirmed', key, till)
      else
        hash('holds', key, false)
      end
      wake_waiters(key, record, now, confirmed and once)
    end
  end
end
