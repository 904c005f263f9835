-- needs: basics
-- What is kept of these idempotency keys: false, or the job, the token and the end.
local found = {}
for at, key in ipairs(A[1]) do found[at] = redis.call('HGET', P .. 'holds', 'once:' .. key) end
return found
