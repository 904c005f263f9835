-- needs: basics, records, chunks, writes, counting, tokens, waking, lanes, flows, jobs, graph, looking
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
    ask_to_cancel(record, reason)
  elseif record then
    answers[at] = CANCELLED
    finish(record, CANCELLED, now, reason)
  end
end
flush()
flows.look(now)
flush_counts()
wake()
return answers
