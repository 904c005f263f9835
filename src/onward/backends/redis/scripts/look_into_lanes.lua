-- needs: basics, heads, records, chunks, writes, counting, tokens, waking, lanes, flows, jobs, limits, walking
-- What `look` answers, where queues have lanes: by the walk that a claim would make.  A walk past so many lanes that cannot
-- start a job is given up: the caller looks again after a while.
local now, queues, seed, most_lanes = instant(A[1]), A[2], A[3], 1000
is_lenient = true

local soonest = -1

local function is_known(at)
  local left = math.max(0, min(at - now, 86400000000))
  if soonest < 0 or left < soonest then soonest = left end
end

for _, queue in ipairs(queues) do
  local seen = redis.call('SMISMEMBER', P .. 'paused', queue, '\n' .. queue)
  if seen[1] == 0 and seen[2] == 1 then
    local walk = new_walk(now, {
      limit = 1, seed = seed, released = {}, is_bounded = false, most_lanes = most_lanes, take = function() end,
    })
    walk.through(queue, 1)
    if walk.picks > 0 then return 0 end
    if walk.opens_at then is_known(walk.opens_at) end
  elseif seen[1] == 0 and redis.call('EXISTS', P .. 'ready:' .. queue) == 1 then
    return 0
  end
  for _, key in ipairs(seen[1] == 0 and {'later:', 'booked:'} or {}) do
    local first = redis.call('ZRANGE', P .. key .. queue, 0, 0, 'WITHSCORES')[2]
    if first then is_known(first) end
  end
end
if #damaged > 0 then error('DAMAGED records') end
return soonest
