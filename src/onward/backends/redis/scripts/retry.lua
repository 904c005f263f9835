-- needs: basics, heads, records, chunks, writes, audit, counting, tokens, waking, lanes, flows, jobs
-- Make scheduled and retryable jobs due now.
local now, ids, entries = instant(A[1]), A[2], A[3]

even_if_full()
load(ids)
local answers, changed = {}, {}
for at, id in ipairs(ids) do
  local record = job(id)
  local waits = record and (record[STATE] == SCHEDULED or record[STATE] == RETRYABLE)
    and not is(record, AWAITS_NODE)
  if waits then
    place(record, AVAILABLE, now, {[AT] = now})
    changed[#changed + 1] = id
  end
  answers[at] = waits and 1 or 0
end
if #changed > 0 then audit.store(entries, changed) end
flush()
flush_counts()
wake()
return answers
