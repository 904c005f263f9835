-- needs: records, writes, showing
-- These jobs, live or finished; or only among the finished.
local ids, only_finished = A[1], A[2]

local found = {}
for _, id in ipairs(ids) do
  local live = not only_finished and redis.call('HGET', P .. 'jobs', id)
  local raw = live or redis.call('HGET', P .. 'finished', id)
  if raw then found[#found + 1] = shown(id, raw, live) end
end
return found
