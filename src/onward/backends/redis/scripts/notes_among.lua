-- needs: basics
-- The notes of each of these jobs: names and what is noted, one after the other.
local found = {}
for at, id in ipairs(A[1]) do found[at] = redis.call('HGETALL', P .. 'notes:' .. id) end
return found
