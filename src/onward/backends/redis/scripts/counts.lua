-- needs: basics, heads, records, queues
-- How many jobs are in each state, in all or in one queue.
local queue = A[1]
if not queue then return redis.call('HGETALL', P .. 'counts') end
local numbers = redis.call('HGETALL', P .. 'counts:' .. queue)
numbers[#numbers + 1], numbers[#numbers + 2] = tostring(AVAILABLE), available_in(queue)
return numbers
