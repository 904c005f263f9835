-- needs: basics, heads, records
-- How many running jobs belong to no live session.
local now, stranded = instant(A[1]), 0

for _, owner in ipairs(redis.call('SMEMBERS', P .. 'owners')) do
  local expires_at = redis.call('ZSCORE', P .. 'expiry', owner)
  if not expires_at or tonumber(expires_at) <= now then
    stranded = stranded + redis.call('SCARD', P .. 'leases:' .. owner)
  end
end
return stranded
