-- needs: basics, heads, records, chunks, writes, counting, tokens, waking, lanes, flows, jobs, limits
-- End sessions with times that no worker writes; remove counts that are no numbers, limits and gates that cannot be read; note
-- anew how many jobs of each queue run, which queues hold live jobs and which need a walk.  Answers what it was.

local ended, miscounted, unreadable, running = {}, {}, {}, {}
for _, owner in ipairs(redis.call('HKEYS', P .. 'sessions')) do
  local expires_at = tonumber(redis.call('ZSCORE', P .. 'expiry', owner) or nil)
  if not expires_at or expires_at < 0 or expires_at > LAST_INSTANT then
    redis.call('HDEL', P .. 'sessions', owner)
    redis.call('ZREM', P .. 'expiry', owner)
    ended[#ended + 1] = owner
  end
end
local function remove_unreadable(key, is_whole, pattern)
  local rows = redis.call('HGETALL', P .. key)
  for at = 1, #rows, 2 do
    if not is_whole(rows[at + 1]) or not string.find(rows[at], pattern) then
      redis.call('HDEL', P .. key, rows[at])
      unreadable[#unreadable + 1] = key .. ' ' .. rows[at]
    end
  end
end

remove_unreadable('limits', limits.is_limit, '^%l+:')
remove_unreadable('gates', limits.is_gate, '^[^\n]*\n[^\n]*$')
for _, owner in ipairs(redis.call('SMEMBERS', P .. 'owners')) do
  for _, id in ipairs(redis.call('SMEMBERS', P .. 'leases:' .. owner)) do
    local record = job(id)
    if record and record[STATE] == EXECUTING then running[record[QUEUE]] = (running[record[QUEUE]] or 0) + 1 end
  end
end
for at = 2, #ARGV do
  local counts = redis.call('HGETALL', ARGV[at])
  local queue = string.match(sub(ARGV[at], #P + 1), '^counts:(.*)$')
  for each = 1, #counts, 2 do
    local state, count = counts[each], counts[each + 1]
    local is_known = state == 'ended' or state == 'limited' or string.match(state, queue and '^[13-7]$' or '^[1-7]$')
    if not is_known or not is_count(count) then
      redis.call('HDEL', ARGV[at], state)
      miscounted[#miscounted + 1] = sub(ARGV[at], #P + 1)
    end
  end
  if queue then
    if running[queue] then
      redis.call('HSET', ARGV[at], EXECUTING, running[queue])
    else
      redis.call('HDEL', ARGV[at], EXECUTING)
    end
    limits.mark(queue)
    local waits = redis.call('HMGET', ARGV[at], SCHEDULED, RETRYABLE)
    if running[queue] or waits[1] or waits[2] or redis.call('EXISTS', P .. 'ready:' .. queue, P .. 'lanes:' .. queue) > 0 then
      redis.call('ZADD', P .. 'queues', 0, queue)
    end
  end
end
for state = COMPLETED, CANCELLED do
  local kept = redis.call('ZCARD', P .. 'ended:' .. state)
  if kept > 0 then redis.call('HSET', P .. 'counts', state, kept) else redis.call('HDEL', P .. 'counts', state) end
end
return {ended, miscounted, unreadable}
