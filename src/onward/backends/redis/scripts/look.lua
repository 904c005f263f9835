-- needs: basics
-- Microseconds until one of these queues has work, 0 if it has some now, -1 if nothing waits there, -2 if that takes a walk.
-- Old tokens are removed: the caller has looked.
local now, queues = instant(A[1]), A[2]

local soonest, walks = -1, false
for _, queue in ipairs(queues) do
  local seen = redis.call('SMISMEMBER', P .. 'paused', queue, '\n' .. queue)
  local is_open, is_marked = seen[1] == 0, seen[2] == 1
  if is_open and not is_marked and redis.call('EXISTS', P .. 'ready:' .. queue) == 1 then return 0 end
  redis.call('DEL', P .. 'wake:' .. queue)
  walks = walks or (is_open and is_marked)
  if is_open then
    local first = redis.call('ZRANGE', P .. 'later:' .. queue, 0, 0, 'WITHSCORES')[2]
    if first then
      local left = min(first - now, 86400000000)  -- more than any thread waits
      if left < 0 then left = 0 end
      if soonest < 0 or left < soonest then soonest = left end
    end
  end
end
return walks and soonest ~= 0 and -2 or soonest
