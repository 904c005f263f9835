-- needs: basics, records, chunks, writes, counting, tokens, waking, lanes, jobs
-- Cancel waiting jobs, ask running ones to stop.  For each the state, or 0.
local now, ids, reason = instant(A[1]), A[2], A[3]

even_if_full()
load(ids)
local answers = {}
for at, id in ipairs(ids) do
  local record = job(id)
  answers[at] = 0
  if record and record[STATE] == EXECUTING then
    answers[at] = EXECUTING
    if not record[CANCEL_REASON] then
      record[CANCEL_REASON] = reason
      set('asked:' .. record[OWNER], id, true)
      save(record)
    end
  elseif record then
    answers[at] = CANCELLED
    finish(record, CANCELLED, now, reason)
  end
end
flush()
flush_counts()
return answers
