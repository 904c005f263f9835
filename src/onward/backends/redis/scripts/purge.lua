-- needs: basics, heads, records, chunks, writes, audit, counting, tokens, waking, lanes, flows, jobs, removing
-- Remove these finished jobs for good, tombstones excepted.
local ids, entries = A[1], A[2]

even_if_full()
local records, removed = finished_among(ids), 0
for _, id in ipairs(ids) do
  local raw = records[id]
  if raw and decode_finished(id, raw)[TOMB] == 0 then
    forget(id, raw)
    removed = removed + 1
  end
end
if removed > 0 then audit.store(entries, {}) end
flush()
flows.drop_empty()
flush_counts()
return removed
