-- Queues whose waiting threads are woken once everything is written.

local SOON = 1500000  -- a waiting thread looks by itself before that

local wakes = {}

local function wake()
  for queue, why in pairs(wakes) do
    if why == SOON or redis.call('EXISTS', P .. 'ready:' .. queue) == 1 then leave_token(queue) end
  end
end
