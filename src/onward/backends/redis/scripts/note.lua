-- needs: basics, heads, records
-- Write a note down, fenced like a settlement.  A name that is there already stays as it is.
local now, id, token, owner, name, value = instant(A[1]), A[2], A[3], A[4], A[5], ARGV[2]

local raw = redis.call('HGET', P .. 'jobs', id)
if not raw or not is_live(raw) then return 0 end
local record = taken_apart(id, raw)
if not record or record[STATE] ~= EXECUTING or record[DELIVERY] ~= token or record[OWNER] ~= owner then return 0 end
redis.call('HSETNX', P .. 'notes:' .. id, name, due(now) .. value)
return 1
