-- Queues that hold live jobs or are paused, the first by name, and which of them are paused.

local function queues_seen(most)
  local paused, names, known = {}, redis.call('ZRANGEBYLEX', P .. 'queues', '-', '+', 'LIMIT', 0, most), {}
  for _, name in ipairs(names) do known[name] = true end
  for _, name in ipairs(redis.call('SMEMBERS', P .. 'paused')) do
    if sub(name, 1, 1) ~= '\n' then  -- else it marks a queue that needs a walk
      paused[name] = true
      if not known[name] then names[#names + 1] = name end
    end
  end
  table.sort(names)
  while most >= 0 and #names > most do table.remove(names) end
  return names, paused
end

-- Nothing else counts them.
local function available_in(queue)
  return string.format('%d', redis.call('ZCARD', P .. 'ready:' .. queue) + redis.call('ZCARD', P .. 'lanes:' .. queue))
end

local function counts_of(queue)
  local counts = redis.call('HMGET', P .. 'counts:' .. queue, SCHEDULED, AVAILABLE, EXECUTING, RETRYABLE)
  counts[AVAILABLE] = available_in(queue)
  return counts
end
