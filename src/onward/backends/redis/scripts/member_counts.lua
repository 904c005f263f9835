-- needs: basics, heads, records, chunks, writes
-- A stretch of a count of the live jobs of a node, by state, and where it goes on, or false; with the first stretch, how many
-- of it have ended in which state.
local place, after, stretch = A[1], A[2], A[3]

local counts = {0, 0, 0, 0, 0, 0, 0}
local ids = in_order({'members:' .. place}, after, stretch)
for _, raw in pairs(hmget('jobs', ids, {})) do
  local state = raw and byte(raw)
  if counts[state] then counts[state] = counts[state] + 1 end
end
for state = COMPLETED, CANCELLED do
  counts[state] = after and 0 or redis.call('ZCARD', P .. 'finished:' .. state .. ':' .. place)
end
return {counts, #ids == stretch and ids[#ids] or false}
