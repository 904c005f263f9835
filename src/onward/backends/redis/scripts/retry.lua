-- needs: basics, records, chunks, writes, counting, tokens, waking, lanes, flows, jobs
-- Make scheduled and retryable jobs due now.
local now, ids = instant(A[1]), A[2]

even_if_full()
load(ids)
local answers = {}
for at, id in ipairs(ids) do
  local record = job(id)
  local waits = record and (record[STATE] == SCHEDULED or record[STATE] == RETRYABLE)
    and not is(record, AWAITS_NODE)
  if waits then place(record, AVAILABLE, now, {[AT] = now}) end
  answers[at] = waits and 1 or 0
end
flush()
flush_counts()
wake()
return answers
