-- needs: basics, records, tokens, waking
-- Stop or allow claims from a queue.  Whether that changed anything; or for what the queue is reserved.
local queue, paused = A[1], A[2]

if paused then return redis.call('SADD', P .. 'paused', queue) end
local reserved = redis.call('HGET', P .. 'reserved', queue)
if reserved then return reserved end
local changed = redis.call('SREM', P .. 'paused', queue)
if redis.call('EXISTS', P .. 'ready:' .. queue, P .. 'lanes:' .. queue) > 0 then leave_token(queue) end
return changed
