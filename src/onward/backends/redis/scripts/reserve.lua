-- needs: basics
-- Reserve a queue for a transfer and pause it, or end the reservation, if it is reserved as it was.  Whether that was so.
local now, queue, transfer, was = instant(A[1]), A[2], A[3], A[4]

if redis.call('HGET', P .. 'reserved', queue) ~= (was or false) then return 0 end
if transfer then
  redis.call('HSET', P .. 'reserved', queue, transfer)
  if redis.call('SADD', P .. 'paused', queue) == 1 then
    redis.call('HSET', P .. 'paused_at', queue, string.format('%.0f', now))
  end
else
  redis.call('HDEL', P .. 'reserved', queue)
end
return 1
