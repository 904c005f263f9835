-- needs: basics, heads, records
-- Note how far a run has come, fenced like a settlement.
local id, token, owner, progress = A[1], A[2], A[3], ARGV[2]

local raw = redis.call('HGET', P .. 'jobs', id)
if not raw or not is_live(raw) then return 0 end
local record = taken_apart(id, raw)
if not record or record[STATE] ~= EXECUTING or record[DELIVERY] ~= token or record[OWNER] ~= owner then return 0 end
redis.call('HSET', P .. 'progress', id, progress)
return 1
