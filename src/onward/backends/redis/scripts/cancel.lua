-- needs: basics, heads, records, chunks, writes, audit, counting, tokens, waking, lanes, flows, jobs, graph, looking
-- Cancel waiting jobs, ask running ones to stop.  For each the state, or 0.
local now, ids, reason, entries = instant(A[1]), A[2], A[3], A[4]

even_if_full()
load(ids)
local answers, changed = {}, {}
for at, id in ipairs(ids) do
  local record = job(id)
  answers[at] = 0
  if record and not record[CANCEL_REASON] then changed[#changed + 1] = id end
  if record and record[STATE] == EXECUTING then
    answers[at] = EXECUTING
    ask_to_cancel(record, reason)
  elseif record then
    answers[at] = CANCELLED
    finish(record, CANCELLED, now, reason)
  end
end
if #changed > 0 then audit.store(entries, changed) end
flush()
flows.look(now)
flush_counts()
wake()
return answers
