-- needs: basics, records, chunks, writes, counting, tokens, waking, jobs, holds
-- Open or renew a session; with `adopts` it inherits another's leases, and is told of all that it holds.
local now, owner, about, adopts = instant(A[1]), A[2], A[3], A[4]

if adopts and redis.call('HEXISTS', P .. 'sessions', adopts) == 0
    and redis.call('HEXISTS', P .. 'sessions', owner) == 0 then
  return false
end
even_if_full()
local expires_at = now + about[1]
if adopts and adopts ~= owner then
  redis.call('HDEL', P .. 'sessions', adopts)
  redis.call('ZREM', P .. 'expiry', adopts)
end
redis.call('HSET', P .. 'sessions', owner, cmsgpack.pack(about))
redis.call('ZADD', P .. 'expiry', expires_at, owner)
if not adopts then return {expires_at, {}, {}, cmsgpack.pack({})} end

if adopts ~= owner then
  local inherited = redis.call('SMEMBERS', P .. 'leases:' .. adopts)
  load(inherited)
  for _, id in ipairs(inherited) do place(job(id), EXECUTING, now, {[OWNER] = owner}) end
  flush()
  flush_counts()
end
local held = redis.call('SMEMBERS', P .. 'leases:' .. owner)
table.sort(held)
load(held)
local sealed, leases, sealed_of, holds = hmget('sealed', held, {}), {}, {}, {}
for at, id in ipairs(held) do
  local record = job(id)
  local hold, holder = hold_of(record, now)
  holds[at] = {at - 1, hold, holder or ''}
  leases[2 * at - 1], leases[2 * at] = id, encode(record)
  if record[SIZE] == 0 then sealed_of[#sealed_of + 1] = sealed[id] or '' end
end
flush()
return {expires_at, leases, sealed_of, cmsgpack.pack(holds)}
