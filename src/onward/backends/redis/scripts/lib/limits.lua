-- Limits and gates: two hashes, whose rows `layout.py` describes.  A row that cannot be read makes a script fail; it is removed,
-- and the script called again.  In a table: a script may have 200 local names.

local limits = {}

-- Whether a process could have written a row.
function limits.is_limit(raw)
  if #raw ~= struct.size(FORMAT.limit) then return false end
  local _, running, tokens, period, burst, chosen, chosen_tokens, chosen_period, chosen_burst =
    struct.unpack(FORMAT.limit, raw)
  local function is_rate(count, time, most)
    return (count == 0 and time == 0 and most == 0) or (min(count, time, most) > 0 and time <= 86400000000)
  end
  return math.max(running, tokens, burst, chosen, chosen_tokens, chosen_burst) <= LARGEST_COUNT
    and is_rate(tokens, period, burst) and is_rate(chosen_tokens, chosen_period, chosen_burst)
end

function limits.is_gate(raw)
  if #raw ~= struct.size(FORMAT.gate) then return false end
  local full_at, written_at, shut_until, shut_for = struct.unpack(FORMAT.gate, raw)
  return math.max(full_at, written_at, shut_until, shut_for) <= LAST_INSTANT
end

-- What counts: each bound as people chose it, else as the code declares it.  False: it has none.
function limits.bounds(raw)
  if not limits.is_limit(raw) then error('DAMAGED limits') end
  local _, running, tokens, period, burst, chosen, chosen_tokens, chosen_period, chosen_burst =
    struct.unpack(FORMAT.limit, raw)
  if chosen > 0 then running = chosen end
  if chosen_tokens > 0 then tokens, period, burst = chosen_tokens, chosen_period, chosen_burst end
  if running == 0 and tokens == 0 then return false end
  return {
    running = running > 0 and running or nil,
    interval = tokens > 0 and math.ceil(period / tokens) or nil,
    burst = burst,
  }
end

function limits.gate(field)
  local raw = hget('gates', field)
  if raw and not limits.is_gate(raw) then error('DAMAGED gates') end
  local gate = {full_at = 0, written_at = 0, shut_until = 0, shut_for = 0}
  if raw then gate.full_at, gate.written_at, gate.shut_until, gate.shut_for = struct.unpack(FORMAT.gate, raw) end
  return gate
end

function limits.set_gate(field, gate)
  hash('gates', field, struct.pack(FORMAT.gate, gate.full_at, gate.written_at, gate.shut_until, gate.shut_for))
end

-- Whether the clock was set back since the bucket was written: by more than turns overlap, where turns can.
function limits.is_set_back(gate, now) return gate.written_at - now > 10000000 end

-- When a bucket is full again; a clock that was set back since moves it along.
function limits.full_at(gate, now)
  return math.max(now, gate.full_at - (limits.is_set_back(gate, now) and gate.written_at - now or 0))
end

-- Full, open, and not probing: as if there were none.
function limits.is_idle(gate, now)
  return limits.full_at(gate, now) == now and gate.shut_until + gate.shut_for <= now
end

-- Shut or open a lane after a settlement: `Gate.changed` of onward/flow/room.py.
function limits.change_gate(change, now)
  local lane, length, probes = unpack(change)
  local field = '\n' .. lane
  local gate = limits.gate(field)
  if gate.shut_until >= LAST_INSTANT then return end  -- by hand
  if length <= 0 then
    gate.shut_until, gate.shut_for = 0, 0
  else
    gate.shut_for = math.max(probes and length or 0, gate.shut_until > now and gate.shut_for or 0)
    gate.shut_until = min(math.max(gate.shut_until, now + length), LAST_INSTANT - 1000000)
  end
  limits.set_gate(field, gate)
end

-- Whether a gate is that of a key of this job.
function limits.is_of_key(field, group)
  return sub(field, 1, #group + 1) == '\n' .. group and #field > #group + 1
end

-- The rate that counts, as one text; false if there is none.
function limits.rate(raw)
  if not raw or #raw ~= struct.size(FORMAT.limit) then return false end
  local numbers = {struct.unpack(FORMAT.limit, raw)}
  local from = numbers[7] > 0 and 7 or 3
  return numbers[from] > 0 and table.concat(numbers, ' ', from, from + 2)
end

-- Fill the buckets of a rate that is another one than before: what was taken says nothing about it.
function limits.refill(field, before, after)
  local was, now = limits.rate(before), limits.rate(after)
  if not was or was == now then return end
  local kind, name = string.match(field, '^(%l+):(.*)$')
  local function fill(scope)
    local gate = redis.call('HGET', P .. 'gates', scope)
    if gate and #gate == struct.size(FORMAT.gate) then
      local _, _, shut_until, shut_for = struct.unpack(FORMAT.gate, gate)
      redis.call('HSET', P .. 'gates', scope, struct.pack(FORMAT.gate, 0, 0, shut_until, shut_for))
    end
  end
  if kind == 'queue' then return fill(name .. '\n') end
  local group = name .. '/'
  if kind == 'job' then return fill('\n' .. group) end
  for _, scope in ipairs(redis.call('HKEYS', P .. 'gates')) do
    if limits.is_of_key(scope, group) then fill(scope) end
  end
end

-- After a limit was given to a queue, or taken from it.
function limits.mark(queue)
  if redis.call('HEXISTS', P .. 'limits', 'queue:' .. queue) == 1 then
    redis.call('HSET', P .. 'counts:' .. queue, 'limited', 1)
  else
    redis.call('HDEL', P .. 'counts:' .. queue, 'limited')
  end
  mark(queue)
end

-- Keep what the code of a session declares, unless a later deployment has declared it.
function limits.declare(rows)
  for _, row in ipairs(rows) do
    local field, declared_at, running, tokens, period, burst, only_ends = unpack(row)
    local raw, was, chosen = redis.call('HGET', P .. 'limits', field), 0, {0, 0, 0, 0}
    if raw and #raw == struct.size(FORMAT.limit) then
      was = struct.unpack(FORMAT.limit, raw)
      chosen = {select(6, struct.unpack(FORMAT.limit, raw))}
    end
    if was <= declared_at and (raw or only_ends == 0) then
      local written = struct.pack(FORMAT.limit, declared_at, running, tokens, period, burst, unpack(chosen, 1, 4))
      redis.call('HSET', P .. 'limits', field, written)
      limits.refill(field, raw, written)
      if not raw and sub(field, 1, 6) == 'queue:' then limits.mark(sub(field, 7)) end
    end
  end
end

-- What may start has changed: wake a thread of every queue in which jobs with lanes wait, or which has a limit.
function limits.wake_all()
  for _, name in ipairs(redis.call('SMEMBERS', P .. 'paused')) do
    if sub(name, 1, 1) == '\n' then lanes.wakes(sub(name, 2)) end
  end
  wake()
end

-- Whether a claim of a queue that is marked has to walk: it has a limit, or jobs in lanes, and not only booked ones.
function limits.walks(queue)
  return redis.call('EXISTS', P .. 'lanes:' .. queue) == 1
    or redis.call('HEXISTS', P .. 'limits', 'queue:' .. queue) == 1
end
