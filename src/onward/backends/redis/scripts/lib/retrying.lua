-- Failed runs of usual jobs that are tried again, many at a time, by cutting and joining records as `usual.lua` does; what
-- `settle_one` does with a `nack`.

-- In a table: a script may have 200 local names.  First the places in `given`, what a turn brings: lists of ids, tokens, delays,
-- lengths of runs and places of failures.  The packed parts of a record of a run lie in ARGV: kind, message and traceback at the place,
-- fingerprint and worker behind it.

local retries = {IDS = 1, TOKENS = 2, DELAYS = 3, DURATIONS = 4, FAILURES = 5}

-- One of them as a settlement.
function retries.settlement(at)
  local given = retries.given
  local place = given[retries.FAILURES][at]
  local kind, message, traceback = cmsgpack.unpack(ARGV[place])
  local fingerprint, by = cmsgpack.unpack(ARGV[place + 1])
  return {
    given[retries.IDS][at], given[retries.TOKENS][at], true, 'nack', true, nil, nil, nil, given[retries.DELAYS][at], 0,
    {kind, message, traceback, fingerprint}, given[retries.DURATIONS][at], nil, nil, nil, nil, nil, by,
  }
end

-- Returns a function that takes one, and says whether it was usual; and one that writes them all.
function retries.writer(owner, now)
  local flags_from, due_from = FROM.flags + #owner, FROM.due + #owner
  local size_from, rest_from = FROM.size + #owner, FROM.rest + #owner
  local ids, records, runs = {}, {}, {}
  local size = 0
  local fences, instants, packed_owner = {}, {}, cmsgpack.pack(owner)
  local ready, later, soon = {}, {}, {}  -- by queue: what its indexes get, and whether that is due soon
  local kinds, kind = {}, nil  -- what the changing fields of many records are, and become; and those of the latest

  -- Find how the changing fields of a record begin, and end.  False if they are none that a worker writes.
  local function learn(raw)
    for _, known in ipairs(kinds) do
      if sub(raw, rest_from, known.to) == known.before then
        kind = known
        return true
      end
    end
    local is_whole, after, queue, rank, attempts, crashes, interruptions, waits, parked, asked, spent =
      pcall(cmsgpack.unpack_limit, raw, SPENT - FIXED, rest_from)
    if not (is_whole and after > 0 and pcall(function()  -- below 0: nothing is behind them
      assert(type(queue) == 'string' and is_within(rank, -100, 100) and is_within(attempts, 0, LARGEST_COUNT - 1)
        and crashes == 0 and is_within(interruptions, 0, LARGEST_COUNT) and is_within(waits, 0, LARGEST_COUNT)
        and (parked == nil or is_within(parked, 0, LAST_INSTANT)) and asked == nil and is_text(spent))
    end)) then return false end
    kind = {
      queue = queue, rank = text(rank), attempt = attempts + 1, runs = {}, to = after, before = sub(raw, rest_from, after),
      becomes = ARRAY.rest .. cmsgpack.pack(queue, rank, attempts + 1, 0, interruptions, 0, nil, nil, spent),
    }
    kinds[#kinds + 1] = kind
    return true
  end

  -- When a job is due, for its record and for the index of what comes later.
  local function instant_after(delay)
    local known = instants[delay]
    if not known then
      known = {due(now + delay), string.format('%.0f', now + delay)}
      instants[delay] = known
    end
    return known
  end

  local function retry(id, raw, token, delay, duration, failure)
    local fenced = fences[token]
    if not fenced then
      fenced = {
        held = fence(EXECUTING, token, owner) .. '\0\0',  -- no flags
        [AVAILABLE] = fence(AVAILABLE, token), [RETRYABLE] = fence(RETRYABLE, token),
      }
      fences[token] = fenced
    end
    if not raw or sub(raw, 1, flags_from + 1) ~= fenced.held then return false end
    if not (kind and sub(raw, rest_from, kind.to) == kind.before) and not learn(raw) then return false end
    local state, at, queue = RETRYABLE, instant_after(delay), kind.queue
    if delay <= 0 and promotes[queue] then state = AVAILABLE end
    local run = kind.runs[token]
    if not run then
      run = {begins = '\156' .. cmsgpack.pack(token, kind.attempt, 'nack', RETRYABLE, now)}  -- an array of 12
      kind.runs[token] = run
    end
    local noted = run[failure] or {}
    if not noted[duration] then  -- a traceback is long, and many runs have all of this in common
      noted[duration] = run.begins .. cmsgpack.pack(duration) .. ARGV[failure] .. packed_owner .. ARGV[failure + 1]
      run[failure] = noted
    end
    size = size + 1
    ids[size] = id
    runs[2 * size - 1] = text(token)
    runs[2 * size] = noted[duration]
    records[2 * size - 1] = id
    records[2 * size] = fenced[state] .. sub(raw, flags_from, due_from - 1) .. at[1]
      .. sub(raw, size_from, rest_from - 1) .. kind.becomes .. sub(raw, kind.to + 1)
    local indexes = state == AVAILABLE and ready or later
    local index = indexes[queue]
    if not index then
      index = {}
      indexes[queue] = index
    end
    index[#index + 1] = state == AVAILABLE and kind.rank or at[2]
    index[#index + 1] = state == AVAILABLE and at[1] .. id or id
    if state ~= AVAILABLE and delay < SOON then soon[queue] = true end
    return true
  end

  local function write()
    if size == 0 then return end
    -- The records of the runs first: one that cannot be written leaves the leases as they are.
    for at = 1, size do redis.call('HSET', P .. 'runs:' .. ids[at], runs[2 * at - 1], runs[2 * at]) end
    in_chunks('SREM', 'leases:' .. owner, ids)
    in_chunks('HSET', 'jobs', records)
    for queue, values in pairs(ready) do
      in_chunks('ZADD', 'ready:' .. queue, values)
      wakes[queue] = wakes[queue] or true
      count(queue, EXECUTING, -#values / 2)
      count(queue, AVAILABLE, #values / 2)
      at_once = at_once + #values / 2
    end
    for queue, values in pairs(later) do
      in_chunks('ZADD', 'later:' .. queue, values)
      if soon[queue] then wakes[queue] = SOON end
      count(queue, EXECUTING, -#values / 2)
      count(queue, RETRYABLE, #values / 2)
    end
  end

  return retry, write
end

-- Gathers what a turn brings, and notes their ids in `seen`.  Returns the places of those that are not usual, and a function
-- that writes the others.
function retries.gather(owner, now, seen)
  local given = retries.given
  local retry, write = retries.writer(owner, now)
  local ids, unusual = given[retries.IDS], {}
  for from = 1, #ids, CHUNK do
    local to = min(from + CHUNK - 1, #ids)
    local found = redis.call('HMGET', P .. 'jobs', unpack(ids, from, to))
    for at = from, to do
      local raw, token, delay = found[at - from + 1], given[retries.TOKENS][at], given[retries.DELAYS][at]
      seen[ids[at]] = true
      if retry(ids[at], raw, token, delay, given[retries.DURATIONS][at], given[retries.FAILURES][at]) then
        raws[ids[at]] = nil  -- whoever looks at it again reads what will be written
      else
        unusual[#unusual + 1] = at
        raws[ids[at]] = raw
      end
    end
  end
  return unusual, write
end
