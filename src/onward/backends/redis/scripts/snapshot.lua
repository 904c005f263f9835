-- needs: basics, heads, records, chunks, writes, audit, counting, tokens, waking, lanes, flows, jobs, showing, holds, limits, queues
-- What a look asks for, at one moment: the counts, the place of one job, rows of samples, a page of the audit trail, the groups
-- of dead jobs.
local now, most_queues, lines, place_of, at_most, span = instant(A[1]), A[2], A[3], A[4], A[5], A[6]
local page, most_groups = A[7], A[8]

-- Since when the first job of each line of a queue is due: of each rank, and of each lane besides.
local function oldest_due(queue)
  local oldest
  local function seen(since)
    since = tonumber(since)
    if since and (not oldest or since < oldest) then oldest = since end
  end
  for _, key in ipairs({'later:', 'booked:'}) do
    local first = redis.call('ZRANGE', P .. key .. queue, 0, 0, 'WITHSCORES')[2]
    if first and tonumber(first) <= now then seen(first) end
  end
  local above, left = '-inf', lines
  while above and left > 0 do
    left = left - 1
    local first = redis.call('ZRANGEBYSCORE', P .. 'ready:' .. queue, above, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    above = first[2] and '(' .. first[2]
    if first[1] and #first[1] > 8 then seen((struct.unpack('>I8', first[1]))) end
  end
  local from, left = '-', lines
  while from and left > 0 do
    left = left - 1
    local member = redis.call('ZRANGEBYLEX', P .. 'lanes:' .. queue, from, '+', 'LIMIT', 0, 1)[1]
    local ends = member and string.find(member, '\0', 2, true)
    from = ends and '[' .. sub(member, 1, ends - 1) .. '\1'
    if ends and #member > ends + 8 then seen((struct.unpack('>I8', member, ends + 1))) end
  end
  return oldest and string.format('%.0f', oldest)
end

local function overview()
  local names, paused = queues_seen(most_queues)
  local seen = {}
  for at, name in ipairs(names) do
    local paused_at = paused[name] and redis.call('HGET', P .. 'paused_at', name) or false
    seen[at] = {name, paused[name] and 1 or 0, counts_of(name), paused_at, oldest_due(name) or false}
  end
  return {redis.call('HGETALL', P .. 'counts'), seen}
end

-- How many stand before a member in the line of plain jobs; it need not stand there itself.
local function before(queue, rank, member)
  local key = P .. 'ready:' .. queue
  local low = redis.call('ZCOUNT', key, '-inf', '(' .. rank)
  local high = low + redis.call('ZCOUNT', key, rank, rank)
  while low < high and low < at_most do
    local middle = math.floor((low + high) / 2)
    if redis.call('ZRANGE', key, middle, middle)[1] < member then low = middle + 1 else high = middle end
  end
  return low
end

local function ahead(record)
  local place = due(record[AT]) .. record.id
  if not is(record, HAS_LANE) then return before(record[QUEUE], record[RANK], place) end
  local prefix = lanes.prefix(record[RANK], fixed(record)[FIELD.LANE])
  return redis.call('ZLEXCOUNT', P .. 'lanes:' .. record[QUEUE], '[' .. prefix, '(' .. prefix .. place)
end

local function holders(record)
  local found = {}
  for _, key in ipairs(is(record, HAS_HOLDS) and hold_keys(record) or {}) do
    local pointer = pointer_of(key)
    if pointer and pointer.id ~= record.id then
      if pointer.till then
        if pointer.till > now then found[#found + 1] = {key, pointer.id, string.format('%.0f', pointer.till)} end
      else
        load({pointer.id})
        if is_valid(pointer) then found[#found + 1] = {key, pointer.id, false} end
      end
    end
  end
  return found
end

-- The rows and gates of the limits over a job, how many leases each has, and how many since its gate was shut.
local function limits_over(record)
  local found = {}
  local function add(field, scope, count)
    local gate = limits.gate(scope)
    local raw = redis.call('HGET', P .. 'limits', field)
    if raw and not limits.is_limit(raw) then error('DAMAGED limits') end
    found[#found + 1] = {field, raw, count(0), redis.call('HGET', P .. 'gates', scope), count(gate.shut_until)}
  end
  local function leases_of(lane)
    return function(since)
      return redis.call('ZLEXCOUNT', P .. 'running', '[' .. lane .. '\0' .. (since > 0 and due(since) or ''), '(' .. lane .. '\1')
    end
  end
  add('queue:' .. record[QUEUE], record[QUEUE] .. '\n', function()
    return tonumber(redis.call('HGET', P .. 'counts:' .. record[QUEUE], EXECUTING) or 0) or 0
  end)
  local lane = is(record, HAS_LANE) and fixed(record)[FIELD.LANE]
  local group = lane and lanes.group(lane)
  if lane and group ~= '/' then add('job:' .. sub(group, 1, -2), '\n' .. group, leases_of(group)) end
  if lane and lane ~= group then add('key:' .. sub(group, 1, -2), '\n' .. lane, leases_of(lane)) end
  return found
end

local function place()
  local raw = redis.call('HGET', P .. 'jobs', place_of)
  if not raw then return false end
  local live = is_live(raw)
  local found = shown(place_of, raw, live)
  if not live then return {found} end
  load({place_of})
  local record = named(place_of)
  if not record then error('DAMAGED records') end
  return {found, record[STATE] ~= EXECUTING and min(ahead(record), at_most) or 0, holders(record), limits_over(record)}
end

local function death_of(member)
  local job_name, fingerprint, id = string.match(member, '^([^%z]*)%z([^%z]*)%z(.*)$')
  local raw = id and finished_record(id)
  local record = raw and taken_apart(id, raw, decode_finished)
  if not record then error('DAMAGED records') end
  return job_name, fingerprint, id, string.format('%.0f', record[ENDED])
end

-- From group to group along the index: the jobs between are passed over.
local function groups()
  local key, found, from = P .. 'deaths', {}, '-'
  while #found < most_groups do
    local member = redis.call('ZRANGEBYLEX', key, from, '+', 'LIMIT', 0, 1)[1]
    if not member then break end
    local job_name, fingerprint, first, first_at = death_of(member)
    local group = job_name .. '\0' .. fingerprint
    local low, high = '[' .. group .. '\0', '(' .. group .. '\1'
    local _, _, last, last_at = death_of(redis.call('ZREVRANGEBYLEX', key, high, low, 'LIMIT', 0, 1)[1])
    local counted = min(redis.call('ZLEXCOUNT', key, low, high), at_most)
    found[#found + 1] = {job_name, fingerprint, counted, first, first_at, last, last_at}
    from = '[' .. group .. '\1'
  end
  return found
end

-- Names and values, one after the other.
local function series()
  local members = redis.call('ZRANGEBYSCORE', P .. 'series', span[1], string.format('(%.0f', span[2]), 'LIMIT', 0, at_most)
  local values, found = hmget('series_data', members, {}), {}
  for at, member in ipairs(members) do found[2 * at - 1], found[2 * at] = member, values[member] end
  return found
end

return {
  string.format('%.0f', now), most_queues and overview() or false, place_of and place() or false, span and series() or false,
  page and audit.page(unpack(page)) or false, most_groups and groups() or {},
}
