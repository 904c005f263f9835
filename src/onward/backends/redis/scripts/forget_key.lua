-- needs: basics, heads, records, chunks, writes, audit, counting, tokens, waking, lanes, flows, jobs, holds
-- Free an idempotency key that a success confirmed.  What it was, and the job that it points to.
local now, key, entries = instant(A[1]), 'once:' .. A[2], A[3]

even_if_full()
local pointer = pointer_of(key)
if not pointer then return {FREE, ''} end
if not pointer.till then
  load({pointer.id})
  if is_valid(pointer) then return {BUSY, pointer.id} end
  return {FREE, ''}
end
if pointer.till <= now then return {FREE, ''} end
hash('holds', key, false)
zset('confirmed', key, false)
audit.store(entries, {})
flush()
return {DONE, pointer.id}
