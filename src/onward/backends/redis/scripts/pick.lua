-- needs: basics, heads, records, chunks, writes, counting, tokens, waking, lanes, flows, jobs, showing
-- These jobs, live or finished; or only among the finished.
local ids, only_finished = A[1], A[2]

local found = {}
for _, id in ipairs(ids) do
  local raw = redis.call('HGET', P .. 'jobs', id)
  if raw and only_finished then raw = finished_record(id) end
  if raw then found[#found + 1] = shown(id, raw, is_live(raw)) end
end
return found
