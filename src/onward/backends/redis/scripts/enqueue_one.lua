-- needs: basics, tokens
-- Store one new job that is due now and carries nothing but itself: what `enqueue_plain` does, without its loops and tables,
-- which take longer than the writes of one job.  False, and nothing stored, if the id was seen before.
local now, queue, rank = instant(A[1]), A[2], A[3]
local id, rest, sealed = ARGV[2], ARGV[3], ARGV[4]
local size = #sealed
local is_large = size > FEW or size == 0
local head = struct.pack(FORMAT.record, AVAILABLE, 0, 0, 0, 0, now, is_large and 0 or size)
if redis.call('HSETNX', P .. 'jobs', id, head .. rest .. (is_large and '' or sealed)) == 0 then return false end

local problem = is_large and redis.pcall('HSET', P .. 'sealed', id, sealed) or nil
if not (type(problem) == 'table' and problem.err) then problem = redis.pcall('ZADD', P .. 'live', '0', id) end
if not (type(problem) == 'table' and problem.err) then
  problem = redis.pcall('ZADD', P .. 'ready:' .. queue, string.format('%d', rank), due(now) .. id)
end
if type(problem) == 'table' and problem.err then  -- one of these keys is of another type: nothing of the call is kept
  redis.call('HDEL', P .. 'jobs', id)
  redis.pcall('HDEL', P .. 'sealed', id)
  redis.pcall('ZREM', P .. 'live', id)
  return problem
end
redis.pcall('HINCRBY', P .. 'counts', string.format('%d', AVAILABLE), '1')
if redis.call('ZCARD', P .. 'ready:' .. queue) == 1 then
  redis.pcall('ZADD', P .. 'queues', '0', queue)  -- where some waited before, it is there
end
leave_token(queue)
return true
