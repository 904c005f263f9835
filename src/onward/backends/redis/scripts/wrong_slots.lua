-- needs: basics, heads, records, chunks, writes, counting, tokens, waking, lanes, flows, jobs
-- How many leases are counted for limits, but are not there, or are there and not counted.  Leases decide.
local wrong, expected, by_queue = 0, {}, {}

for _, owner in ipairs(redis.call('SMEMBERS', P .. 'owners')) do
  local ids = redis.call('SMEMBERS', P .. 'leases:' .. owner)
  load(ids)
  for _, id in ipairs(ids) do
    local record = job(id)
    if record and record[STATE] == EXECUTING then
      by_queue[record[QUEUE]] = (by_queue[record[QUEUE]] or 0) + 1
      if is(record, HAS_LANE) then lanes.count(record, 0) end
    end
  end
end
local members, size = zsets['running'] or {}, 0
for member in pairs(members) do
  size = size + 1
  if not redis.call('ZSCORE', P .. 'running', member) then wrong = wrong + 1 end
end
wrong = wrong + redis.call('ZCARD', P .. 'running') - (size - wrong)
for _, queue in ipairs(redis.call('ZRANGE', P .. 'queues', 0, -1)) do
  local counted = tonumber(redis.call('HGET', P .. 'counts:' .. queue, EXECUTING) or 0) or 0
  wrong = wrong + math.abs(counted - (by_queue[queue] or 0))
end
return wrong
