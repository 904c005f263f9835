-- needs: basics, records, chunks, writes
-- Renew a session.  An expired one that nobody reaped is alive.
local now, owner = instant(A[1]), A[2]

local about = redis.call('HGET', P .. 'sessions', owner)
if not about then return false end
even_if_full()
local _, lease_for = cmsgpack.unpack_limit(about, 1, 1)
redis.call('ZADD', P .. 'expiry', now + lease_for, owner)
local asked = {}
for _, id in ipairs(redis.call('SMEMBERS', P .. 'asked:' .. owner)) do
  local raw = redis.call('HGET', P .. 'jobs', id)
  if raw then asked[#asked + 1] = {id, decode(id, raw)[DELIVERY]} end
end
return cmsgpack.pack(asked)
