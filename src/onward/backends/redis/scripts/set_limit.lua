-- needs: basics, heads, records, chunks, writes, audit, counting, tokens, waking, lanes, flows, jobs, limits
-- Choose the bounds of a limit, or drop it.  False: there is no such limit, and none was to be made.  A queue's without bounds is
-- dropped, too.
local field, chosen, is_new, is_dropped, entries = A[1], A[2], A[3], A[4], A[5]

local raw = redis.call('HGET', P .. 'limits', field)
if not raw and not is_new then return 0 end
even_if_full()
local declared = {0, 0, 0, 0, 0}
if raw and #raw == struct.size(FORMAT.limit) and not is_dropped then declared = {struct.unpack(FORMAT.limit, raw)} end
local row = struct.pack(FORMAT.limit, declared[1], declared[2], declared[3], declared[4], declared[5], unpack(chosen))
local queue = sub(field, 1, 6) == 'queue:' and sub(field, 7)
if is_dropped or (queue and not limits.bounds(row)) then
  redis.call('HDEL', P .. 'limits', field)
else
  redis.call('HSET', P .. 'limits', field, row)
end
limits.refill(field, raw, row)
if queue then limits.mark(queue) end
audit.store(entries, {})
flush()
limits.wake_all()
return 1
