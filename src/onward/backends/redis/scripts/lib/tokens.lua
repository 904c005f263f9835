-- A waiting thread blocks on one list per queue, which carries no jobs, only a token: a script that makes a job due leaves one
-- if none is there.  It wakes one thread, whose claim leaves the next token if there is more work.

local function leave_token(queue)
  if redis.call('EXISTS', P .. 'wake:' .. queue) == 0 and redis.pcall('SISMEMBER', P .. 'paused', queue) == 0 then
    redis.call('LPUSH', P .. 'wake:' .. queue, 1)
  end
end
