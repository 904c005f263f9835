-- needs: basics, records
-- Queues that hold live jobs or are paused, the first by name, with their counts; and the counts of all.
local most = A[1]

local paused, names, known = {}, redis.call('ZRANGEBYLEX', P .. 'queues', '-', '+', 'LIMIT', 0, most), {}
for _, name in ipairs(names) do known[name] = true end
for _, name in ipairs(redis.call('SMEMBERS', P .. 'paused')) do
  if sub(name, 1, 1) ~= '\n' then  -- else it marks a queue that needs a walk
    paused[name] = true
    if not known[name] then names[#names + 1] = name end
  end
end
table.sort(names)
local seen = {}
for at, name in ipairs(names) do
  if at > most and most >= 0 then break end
  local counts = redis.call('HMGET', P .. 'counts:' .. name, SCHEDULED, AVAILABLE, EXECUTING, RETRYABLE)
  seen[at] = {name, paused[name] and 1 or 0, counts, redis.call('HGET', P .. 'reserved', name)}
end
return {redis.call('HGETALL', P .. 'counts'), seen}
