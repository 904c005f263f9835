-- needs: basics, heads, records, queues
-- Queues that hold live jobs or are paused, with their counts.
local names, paused = queues_seen(-1)
local seen = {}
for at, name in ipairs(names) do
  seen[at] = {name, paused[name] and 1 or 0, counts_of(name), redis.call('HGET', P .. 'reserved', name)}
end
return seen
