-- Queues whose waiting threads are woken once everything is written.

local SOON = 1500000  -- a waiting thread looks by itself before that
local LANED = 'laned'  -- a job with a lane may start

local wakes = {}
local quiet = {}  -- queues that a walk of this script went through: no more can start there now


-- What `lanes.lua` defines, and by what all lanes of a job begin with how many more of its leases have ended than begun.
local lanes = {freed = {}}

local wake
do
  -- A limit of a job, or of its keys, counts over all queues: a slot that is left may be waited for in each that has lanes.
  local function wake_other_queues()
    for group, count in pairs(lanes.freed) do
      local name = sub(group, 1, -2)
      local bounds = count > 0 and redis.call('HMGET', P .. 'limits', 'job:' .. name, 'key:' .. name)
      if bounds and (bounds[1] or bounds[2]) then
        for _, queue in ipairs(redis.call('SMEMBERS', P .. 'paused')) do
          if byte(queue) == 10 and wakes[sub(queue, 2)] ~= SOON then wakes[sub(queue, 2)] = LANED end
        end
        return
      end
    end
  end

  function wake()
    wake_other_queues()
    for queue in pairs(freed) do wakes[queue] = wakes[queue] or true end
    for queue, why in pairs(wakes) do
      if why == SOON then
        leave_token(queue)
      elseif not quiet[queue] then
        local waiting = why == LANED and redis.call('EXISTS', P .. 'ready:' .. queue, P .. 'lanes:' .. queue)
          or redis.call('EXISTS', P .. 'ready:' .. queue)
        if waiting > 0 then leave_token(queue) end
      end
    end
  end
end
