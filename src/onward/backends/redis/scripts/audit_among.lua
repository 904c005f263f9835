-- needs: basics, heads, records, chunks, writes, audit
-- The entries of each of these jobs, the oldest first.
local found = {}
for at, id in ipairs(A[1]) do
  found[at] = {}
  for _, number in ipairs(redis.call('ZRANGE', P .. 'audit_job:' .. id, 0, -1)) do
    if audit.read(number) then found[at][#found[at] + 1] = redis.call('HGET', P .. 'audit', number) end
  end
end
return found
