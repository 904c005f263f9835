-- needs: basics, heads, records, chunks, writes, audit, counting, tokens, waking, lanes, flows, jobs, graph, looking, removing
-- Replay these discarded or cancelled jobs.  For each, answers that it was done, or what prevents it; and names flows of which
-- steps are left.
local now, ids, is_fresh, entries = instant(A[1]), A[2], A[3], A[4]

load(ids)
local records, answers, replayed = finished_among(ids), {}, {}  -- nodes of flows of which jobs are replayed

local function obstacle(record)
  local carried = fixed(record)
  if is(record, EXPIRES) and carried[FIELD.EXPIRES_AT] <= now then return 'expired' end
  if job(record.id) then return 'key held by ' .. record.id end
  local holder = is(record, IS_UNIQUE) and hget('unique', carried[FIELD.UNIQUE_KEY])
  return holder and job(holder) and 'key held by ' .. holder or ''
end

for _, id in ipairs(ids) do
  local record = records[id] and decode_finished(id, records[id])
  if record and record[TOMB] == 0 and (record[STATE] == DISCARDED or record[STATE] == CANCELLED) then
    local why = obstacle(record)
    if why == '' then
      flows.revive(record, records[id], now)
      if is_fresh then redis.call('DEL', P .. 'notes:' .. id) end
      if is(record, AWAITS_NODE) then
        local nodes = replayed[fixed(record)[FIELD.FLOW]] or {}
        replayed[fixed(record)[FIELD.FLOW]], nodes[fixed(record)[FIELD.NODE]] = nodes, true
      end
      records[id] = false
    end
    answers[#answers + 1] = {id, why}
  end
end
flush()
local unswept = {}
for id, nodes in pairs(replayed) do
  local flow = flows.read(id)
  if flow then
    flows.begin_anew(flow, nodes, function() return TODO.SWEEP end, now)
    if flow.state.unswept then unswept[#unswept + 1] = id end
  end
end
for _, answer in ipairs(answers) do
  local raw = next(replayed) and answer[2] == '' and hget('jobs', answer[1])
  if raw and not is_live(raw) then answer[2] = decode_finished(answer[1], raw)[REASON] or 'ended again' end
end
if entries then
  local changed = {}
  for _, answer in ipairs(answers) do
    if answer[2] == '' then changed[#changed + 1] = answer[1] end
  end
  if #changed > 0 then audit.store(entries, changed) end
  flush()
end
flush_counts()
wake()
return {cmsgpack.pack(answers), cmsgpack.pack(unswept)}
