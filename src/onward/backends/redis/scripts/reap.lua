-- needs: basics, heads, records, chunks, writes, counting, tokens, waking, lanes, flows, jobs, graph, looking, notes, holds, settling
-- End dead sessions and give their leases back: of all that expired or are gone, or of one owner.  Of one queue: only the
-- sessions end that held a lease of it, and only these leases come back.
local now, owner, begun, cause, queue = instant(A[1]), A[2], A[3], A[4], A[5]

local function leases_of(name)
  local ids = redis.call('SMEMBERS', P .. 'leases:' .. name)
  table.sort(ids)
  load(ids)
  if not queue then return ids end
  local chosen = {}
  for _, id in ipairs(ids) do
    local record = named(id)
    if record and record[QUEUE] == queue then chosen[#chosen + 1] = id end
  end
  return chosen, #ids - #chosen
end

even_if_full()
deaths.workers = {}  -- by the sessions that are ended here
local dead = owner and {owner} or redis.call('ZRANGEBYSCORE', P .. 'expiry', '-inf', now)
for _, name in ipairs(dead) do
  if owner or not queue or #leases_of(name) > 0 then
    local about = unpacked(hget('sessions', name) or '')
    deaths.workers[name] = type(about) == 'table' and type(about[6]) == 'string' and about[6]
    hash('sessions', name, false)
    zset('expiry', name, false)
  end
end
if not owner then
  dead = {}
  for _, name in ipairs(redis.call('SMEMBERS', P .. 'owners')) do
    if not hget('sessions', name) then dead[#dead + 1] = name end
  end
end

local started = begun and {}
for _, lease in ipairs(begun or {}) do started[lease[1]] = lease[2] end

local function give_back(record)
  local crashed, to = not started or started[record.id] == record[DELIVERY], AVAILABLE
  if crashed then
    to = crash(record, now, cause, deaths.workers[record[OWNER]])
  else
    record[INTERRUPTIONS] = record[INTERRUPTIONS] + 1
    if record[CANCEL_REASON] then
      to = CANCELLED
      finish(record, to, now, record[CANCEL_REASON])
    else
      place(record, to, now)
    end
  end
  end_holds(record, now, false)
  return {record.id, record[QUEUE], fixed(record)[FIELD.JOB], record[DELIVERY], to, crashed, record[CRASHES]}
end

local reaped = {}
for _, name in ipairs(dead) do
  local ids, others = leases_of(name)
  for _, id in ipairs(ids) do
    local record = named(id)
    if record and record[STATE] == EXECUTING and record[OWNER] == name then
      reaped[#reaped + 1] = give_back(record)
    else
      damaged[#damaged + 1] = id
    end
  end
  if not others or others == 0 then set('owners', name, false) end
end
flush()
flows.look(now)
flush_counts()
wake()
return {cmsgpack.pack(reaped), not owner and not queue and redis.call('EXISTS', P .. 'flows:running') or 0}
