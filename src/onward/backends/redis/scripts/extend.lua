-- needs: basics, heads, records, chunks, writes
-- Renew a session.  An expired one that was not reaped is alive.
local now, owner = instant(A[1]), A[2]

local about = redis.call('HGET', P .. 'sessions', owner)
if not about then return false end
even_if_full()
local is_whole, _, lease_for = pcall(cmsgpack.unpack_limit, about, 1, 1)
if not is_whole or type(lease_for) ~= 'number' or lease_for <= 0 or lease_for > LAST_INSTANT then
  lease_for = 60000000  -- the session is alive, whatever its row says
end
redis.call('ZADD', P .. 'expiry', now + lease_for, owner)
local asked = {}
for _, id in ipairs(redis.call('SMEMBERS', P .. 'asked:' .. owner)) do
  local raw = redis.call('HGET', P .. 'jobs', id)
  local record = raw and taken_apart(id, raw)
  if record then asked[#asked + 1] = {id, record[DELIVERY]} end
end
return cmsgpack.pack(asked)
