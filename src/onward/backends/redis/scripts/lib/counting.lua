-- How many jobs are in which state, in all and by queue, so that no script counts them.

local changes, ended = {}, 0
local FIELDS = {'1', '2', '3', '4', '5', '6', '7'}  -- by state: the server makes a number that it is given text, and slowly
local freed = {}  -- queues with a limit in which fewer jobs run now

-- Whether a process could have written a number of jobs.  One below zero shows that counts were lost.
local function is_count(number) return string.match(number, '^%d+$') and #number <= 15 end

local function count(queue, state, change)
  local states = changes[queue]
  if not states then
    states = {}
    changes[queue] = states
  end
  states[state] = (states[state] or 0) + change
end

-- Numbers are the last that is written, and nothing fails for them: what is no number is counted anew.
local function try(command, key, ...)
  local answer = redis.pcall(command, P .. key, ...)
  if type(answer) == 'table' and answer.err then damaged[#damaged + 1] = key end
  return answer
end

local function add_to(key, field, change)
  local total = try('HINCRBY', key, field, change)
  if total == 0 or type(total) == 'table' then try('HDEL', key, field) end
end

local function flush_counts()
  for queue, states in pairs(changes) do
    local lives = false
    for state, change in pairs(states) do
      if change ~= 0 then
        add_to('counts', FIELDS[state], change)
        add_to('counts:' .. queue, FIELDS[state], change)
        lives = lives or state <= RETRYABLE
      end
    end
    if lives then
      local live = try('HMGET', 'counts:' .. queue, FIELDS[SCHEDULED], FIELDS[AVAILABLE], FIELDS[EXECUTING], FIELDS[RETRYABLE], 'limited')
      if live[5] and (states[EXECUTING] or 0) < 0 then freed[queue] = true end
      if live[1] or live[2] or live[3] or live[4] then
        try('ZADD', 'queues', '0', queue)
      else
        try('ZREM', 'queues', queue)
      end
    end
  end
  if ended > 0 then add_to('counts', 'ended', ended) end
  changes, ended = {}, 0
end
