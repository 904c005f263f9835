-- needs: basics, heads, records, chunks, writes, audit, counting, tokens, waking, lanes, flows, jobs, removing, schedules
-- Remove those of these jobs that were never claimed.  Answers their ids.
local removed = remove_unbegun(A[1])
flush()
flush_counts()
return removed
