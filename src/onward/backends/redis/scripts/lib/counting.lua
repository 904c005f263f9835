-- How many jobs are in which state, in all and by queue, so that nobody ever has to count them.

local changes, ended = {}, 0

local function count(queue, state, change)
  local states = changes[queue]
  if not states then
    states = {}
    changes[queue] = states
  end
  states[state] = (states[state] or 0) + change
end

local function add_to(key, field, change)
  if redis.call('HINCRBY', P .. key, field, change) == 0 then redis.call('HDEL', P .. key, field) end
end

local function flush_counts()
  for queue, states in pairs(changes) do
    local lives = false
    for state, change in pairs(states) do
      if change ~= 0 then
        add_to('counts', state, change)
        add_to('counts:' .. queue, state, change)
        lives = lives or state <= RETRYABLE
      end
    end
    if lives then
      local live = redis.call('HMGET', P .. 'counts:' .. queue, SCHEDULED, AVAILABLE, EXECUTING, RETRYABLE)
      if live[1] or live[2] or live[3] or live[4] then
        redis.call('ZADD', P .. 'queues', 0, queue)
      else
        redis.call('ZREM', P .. 'queues', queue)
      end
    end
  end
  if ended > 0 then redis.call('HINCRBY', P .. 'counts', 'ended', ended) end
  changes, ended = {}, 0
end
