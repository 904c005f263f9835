-- needs: basics, heads, records
-- Every session that was not ended or reaped.
local found = {}
for _, owner in ipairs(redis.call('HKEYS', P .. 'sessions')) do
  found[#found + 1] = {
    owner, redis.call('HGET', P .. 'sessions', owner), redis.call('ZSCORE', P .. 'expiry', owner),
    redis.call('SCARD', P .. 'leases:' .. owner),
  }
end
return found
