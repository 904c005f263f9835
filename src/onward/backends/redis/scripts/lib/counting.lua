-- How many jobs are in which state, in all and by queue, so that no script counts them.  Those available in a queue are not
-- written: they are the members of two of its indexes, which the server counts.

local changes, ended = {}, 0
local running = {}  -- queues of which this script has claimed last, so that jobs run

local texts = {}

-- A whole number as text: the server makes it of a number that it is given, and slowly.
local function text(number)
  local known = texts[number]
  if not known then
    known = string.format('%d', number)
    texts[number] = known
  end
  return known
end

local freed = {}  -- queues with a limit in which fewer jobs run now

-- Whether a process could have written a number of jobs.  One below zero shows that counts were lost.
local function is_count(number) return string.match(number, '^%d+$') and #number <= 15 end

local function count(queue, state, change)
  local states = changes[queue]
  if not states then
    states = {0, 0, 0, 0, 0, 0, 0}  -- a table that grows is copied each time
    changes[queue] = states
  end
  states[state] = states[state] + change
  if state == EXECUTING then running[queue] = change > 0 end
end

-- Numbers are the last that is written, and nothing fails for them: what is no number is counted anew.
local function try(command, key, ...)
  local answer = redis.pcall(command, P .. key, ...)
  if type(answer) == 'table' and answer.err then damaged[#damaged + 1] = key end
  return answer
end

local function try_in_chunks(command, key, values)
  for from = 1, #values, CHUNK do try(command, key, unpack(values, from, min(from + CHUNK - 1, #values))) end
end

-- Returns whether it is above zero now.
local function add_to(key, field, change)
  local total = redis.pcall('HINCRBY', key, field, text(change))
  if type(total) == 'table' then
    damaged[#damaged + 1] = sub(key, #P + 1)
  elseif total ~= 0 then
    return total > 0
  end
  redis.pcall('HDEL', key, field)
  return false
end

local function flush_counts()
  local totals, there, gone = {}, {}, {}
  for queue, states in pairs(changes) do
    local key, lives, remains, more = P .. 'counts:' .. queue, false, running[queue], 0
    for state, change in ipairs(states) do
      if change ~= 0 then
        totals[state] = (totals[state] or 0) + change
        local is_left = change > 0
        if state ~= AVAILABLE then is_left = add_to(key, text(state), change) end
        if state <= RETRYABLE then lives, remains, more = true, remains or is_left, more + change end
      end
    end
    local ends = states[EXECUTING] < 0
    if lives and (ends or not remains) then
      local live = try('HMGET', 'counts:' .. queue, text(SCHEDULED), text(EXECUTING), text(RETRYABLE), 'limited')
      if live[4] and ends then freed[queue] = true end
      remains = live[1] or live[2] or live[3] or redis.call('EXISTS', P .. 'ready:' .. queue, P .. 'lanes:' .. queue) > 0
    end
    if lives and not remains then
      gone[#gone + 1] = queue
    elseif more > 0 or (lives and not there[1]) then  -- one of many is looked for slowly: those that had live jobs are there
      there[#there + 1], there[#there + 2] = '0', queue  -- but one is written always: it shows whether the list is whole
    end
  end
  for state, change in pairs(totals) do
    if change ~= 0 then add_to(P .. 'counts', text(state), change) end
  end
  if ended > 0 then add_to(P .. 'counts', 'ended', ended) end
  try_in_chunks('ZADD', 'queues', there)
  try_in_chunks('ZREM', 'queues', gone)
  changes, ended = {}, 0
end
