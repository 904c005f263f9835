-- needs: basics
-- A stretch of a walk over flows, the newest first: ids, each with its fields and what they hold.
local running, after, stretch = A[1], A[2], A[3]

local found = {}
local ids = redis.call('ZREVRANGEBYLEX', P .. (running and 'flows:running' or 'flows'), after and '(' .. after or '+', '-',
  'LIMIT', 0, stretch)
for at, id in ipairs(ids) do found[at] = {id, redis.call('HGETALL', P .. 'flow:' .. id)} end
return found
