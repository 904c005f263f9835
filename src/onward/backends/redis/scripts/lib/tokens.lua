-- Who sleeps blocks on a list per queue that carries no jobs, only a token: whoever makes a job due leaves one if none is
-- there.  It wakes one sleeper, who claims and, if work is left, leaves the next.

local function leave_token(queue)
  if redis.call('EXISTS', P .. 'wake:' .. queue) == 0 and redis.pcall('SISMEMBER', P .. 'paused', queue) == 0 then
    redis.call('LPUSH', P .. 'wake:' .. queue, 1)
  end
end
