-- needs: basics
-- Reserve a queue for a transfer and pause it, or end the reservation, if it is reserved as it was.  Whether that was so.
local queue, transfer, was = A[1], A[2], A[3]

if redis.call('HGET', P .. 'reserved', queue) ~= (was or false) then return 0 end
if transfer then
  redis.call('HSET', P .. 'reserved', queue, transfer)
  redis.call('SADD', P .. 'paused', queue)
else
  redis.call('HDEL', P .. 'reserved', queue)
end
return 1
