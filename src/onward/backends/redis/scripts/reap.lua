-- needs: basics, records, chunks, writes, counting, tokens, waking, jobs, holds, settling
-- End dead sessions and give their leases back: all that expired and every orphan, or one owner's.
local now, owner, begun, cause = instant(A[1]), A[2], A[3], A[4]

even_if_full()
local dead = owner and {owner} or redis.call('ZRANGEBYSCORE', P .. 'expiry', '-inf', now)
for _, name in ipairs(dead) do
  redis.call('HDEL', P .. 'sessions', name)
  redis.call('ZREM', P .. 'expiry', name)
end
if not owner then
  dead = {}
  for _, name in ipairs(redis.call('SMEMBERS', P .. 'owners')) do
    if redis.call('HEXISTS', P .. 'sessions', name) == 0 then dead[#dead + 1] = name end
  end
end

local started = begun and {}
for _, lease in ipairs(begun or {}) do started[lease[1]] = lease[2] end

local function give_back(record)
  local crashed, to = not started or started[record.id] == record[DELIVERY], AVAILABLE
  if crashed then
    to = crash(record, now, cause)
  else
    record[INTERRUPTIONS] = record[INTERRUPTIONS] + 1
    if record[ASKED] then
      to = CANCELLED
      finish(record, to, now, record[ASKED])
    else
      place(record, to, now)
    end
  end
  end_holds(record, now, false)
  return {record.id, record[QUEUE], fixed(record)[JOB], record[DELIVERY], to, crashed, record[CRASHES]}
end

local reaped = {}
for _, name in ipairs(dead) do
  local ids = redis.call('SMEMBERS', P .. 'leases:' .. name)
  table.sort(ids)
  load(ids)
  for _, id in ipairs(ids) do reaped[#reaped + 1] = give_back(job(id)) end
  set('owners', name, false)
end
flush()
flush_counts()
wake()
return cmsgpack.pack(reaped)
