-- Queues whose waiting threads are woken once everything is written.

local SOON = 1500000  -- a waiting thread looks by itself before that
local LANED = 'laned'  -- a job with a lane may start

local wakes = {}
local quiet = {}  -- queues that a walk of this script went through: no more can start there now

local function wake()
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
