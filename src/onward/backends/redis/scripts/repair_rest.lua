-- needs: basics, records
-- End sessions with times that no worker writes, and remove counts that are no numbers.  Answers what it was.

local ended, miscounted = {}, {}
for _, owner in ipairs(redis.call('HKEYS', P .. 'sessions')) do
  local expires_at = tonumber(redis.call('ZSCORE', P .. 'expiry', owner) or nil)
  if not expires_at or expires_at < 0 or expires_at > LAST_INSTANT then
    redis.call('HDEL', P .. 'sessions', owner)
    redis.call('ZREM', P .. 'expiry', owner)
    ended[#ended + 1] = owner
  end
end
for at = 2, #ARGV do
  local counts = redis.call('HGETALL', ARGV[at])
  for each = 1, #counts, 2 do
    local state, count = counts[each], counts[each + 1]
    local is_known = state == 'ended' or string.match(state, '^[1-7]$')
    if not is_known or not string.match(count, '^%d+$') or #count > 15 then
      redis.call('HDEL', ARGV[at], state)
      miscounted[#miscounted + 1] = sub(ARGV[at], #P + 1)
    end
  end
  local queue = string.match(sub(ARGV[at], #P + 1), '^counts:(.*)$')
  if queue then
    local waiting = redis.call('ZCARD', P .. 'ready:' .. queue)
    if waiting > 0 then redis.call('HSET', ARGV[at], AVAILABLE, waiting) else redis.call('HDEL', ARGV[at], AVAILABLE) end
  end
end
for state = COMPLETED, CANCELLED do
  local kept = redis.call('ZCARD', P .. 'ended:' .. state)
  if kept > 0 then redis.call('HSET', P .. 'counts', state, kept) else redis.call('HDEL', P .. 'counts', state) end
end
return {ended, miscounted}
