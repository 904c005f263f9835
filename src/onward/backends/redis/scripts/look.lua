-- needs: basics
-- Microseconds until one of these queues has work, 0 if it has some now, -1 if nothing waits there.  Old tokens are removed:
-- the caller has looked.
local now, queues = instant(A[1]), A[2]

local soonest = -1
for _, queue in ipairs(queues) do
  local is_open = redis.call('SISMEMBER', P .. 'paused', queue) == 0
  if is_open and redis.call('EXISTS', P .. 'ready:' .. queue) == 1 then return 0 end
  redis.call('DEL', P .. 'wake:' .. queue)
  if is_open then
    local first = redis.call('ZRANGE', P .. 'later:' .. queue, 0, 0, 'WITHSCORES')[2]
    if first then
      local left = min(first - now, 86400000000)  -- more than any thread waits
      if left < 0 then left = 0 end
      if soonest < 0 or left < soonest then soonest = left end
    end
  end
end
return soonest
