-- needs: basics, heads, records, chunks, writes, audit, tokens, waking
-- Stop or allow claims from a queue.  Whether that changed anything; or for what the queue is reserved.
local now, queue, paused, entries = instant(A[1]), A[2], A[3], A[4]

if paused then
  local is_new = redis.call('SADD', P .. 'paused', queue)
  if is_new == 1 then
    redis.call('HSET', P .. 'paused_at', queue, string.format('%.0f', now))
    audit.store(entries, {})
    flush()
  end
  return is_new
end
local reserved = redis.call('HGET', P .. 'reserved', queue)
if reserved then return reserved end
local changed = redis.call('SREM', P .. 'paused', queue)
redis.call('HDEL', P .. 'paused_at', queue)
if redis.call('EXISTS', P .. 'ready:' .. queue, P .. 'lanes:' .. queue) > 0 then leave_token(queue) end
if changed == 1 then
  audit.store(entries, {})
  flush()
end
return changed
