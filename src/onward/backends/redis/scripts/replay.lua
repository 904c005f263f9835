-- needs: basics, records, chunks, writes, counting, tokens, waking, lanes, jobs, removing
-- Replay these discarded or cancelled jobs.  For each, answers that it was done, or what prevents it.
local now, ids, is_fresh = instant(A[1]), A[2], A[3]

load(ids)
local records, answers = finished_among(ids), {}

local function obstacle(record)
  local carried = fixed(record)
  if is(record, EXPIRES) and carried[EXPIRES_AT] <= now then return 'expired' end
  if job(record.id) then return 'key held by ' .. record.id end
  local holder = is(record, IS_UNIQUE) and hget('unique', carried[UNIQUE_KEY])
  return holder and job(holder) and 'key held by ' .. holder or ''
end

local function revive(record)
  local id = record.id
  forget_finished(id, records[id])
  hash('progress', id, false)
  if is(record, IS_UNIQUE) then hash('unique', fixed(record)[UNIQUE_KEY], id) end
  record[AT], record[STATE] = now, AVAILABLE
  record[ATTEMPTS], record[CRASHES], record[INTERRUPTIONS], record[WAITS] = 0, 0, 0, 0
  record[STARTED], record[PARKED_SINCE], record[OWNER] = nil, nil, nil
  record[SPENT], record[ENDED], record[REASON] = nil, nil, nil
  jobs[id] = record
  if is_fresh then redis.call('DEL', P .. 'notes:' .. id) end
  index(record, now)
  count(record[QUEUE], AVAILABLE, 1)
  zset('live', id, 0)
  save(record)
end

for _, id in ipairs(ids) do
  local record = records[id] and decode_finished(id, records[id])
  if record and record[TOMB] == 0 and (record[STATE] == DISCARDED or record[STATE] == CANCELLED) then
    local why = obstacle(record)
    if why == '' then
      revive(record)
      records[id] = false
    end
    answers[#answers + 1] = {id, why}
  end
end
flush()
flush_counts()
wake()
return cmsgpack.pack(answers)
