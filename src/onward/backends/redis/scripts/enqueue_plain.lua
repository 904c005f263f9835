-- needs: basics, chunks, tokens
-- Store new jobs of one queue and priority that are due now and carry nothing but themselves: id, the packed part of the
-- record and the sealed bytes, one after the other.  False, and nothing stored, if any of the ids was seen before.
local now, queue, rank = instant(A[1]), A[2], A[3]

local ids, known, total = {}, {}, (#ARGV - 1) / 3
for at = 1, total do
  local id = ARGV[3 * at - 1]
  if known[id] then return false end
  ids[at], known[id] = id, true
end
for from = 1, total, CHUNK do
  local found = redis.call('HMGET', P .. 'jobs', unpack(ids, from, min(from + CHUNK - 1, total)))
  for at = 1, #found do
    if found[at] then return false end
  end
end

local at_now = due(now)
local records, large, live, ready, sizes = {}, {}, {}, {}, {}
for at = 1, total do
  local id, first, second, rest, sealed = ids[at], 2 * at - 1, 2 * at, ARGV[3 * at], ARGV[3 * at + 1]
  local size = #sealed
  if size > FEW or size == 0 then
    large[#large + 1], large[#large + 2] = id, sealed
    size, sealed = 0, ''
  end
  local packed = sizes[size]
  if not packed then
    packed = struct.pack(FORMAT.record, AVAILABLE, 0, 0, 0, 0, now, size)
    sizes[size] = packed
  end
  records[first], records[second] = id, packed .. rest .. sealed
  live[first], live[second] = '0', id
  ready[first], ready[second] = rank, at_now .. id
end
in_chunks('HSET', 'jobs', records)
local is_whole, problem = pcall(function()
  if #large > 0 then in_chunks('HSET', 'sealed', large) end
  in_chunks('ZADD', 'live', live)
  in_chunks('ZADD', 'ready:' .. queue, ready)
end)
if not is_whole then  -- one of these keys is of another type: nothing of the call is kept
  for _, id in ipairs(ids) do
    redis.call('HDEL', P .. 'jobs', id)
    redis.pcall('HDEL', P .. 'sealed', id)
    redis.pcall('ZREM', P .. 'live', id)
  end
  error(problem)
end
redis.pcall('HINCRBY', P .. 'counts', AVAILABLE, total)
if redis.call('ZCARD', P .. 'ready:' .. queue) == total then
  redis.pcall('ZADD', P .. 'queues', '0', queue)  -- where some waited before, it is there
end
leave_token(queue)
return true
