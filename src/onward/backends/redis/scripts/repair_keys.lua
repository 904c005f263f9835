-- needs: basics
-- Put keys aside that are of another type than Onward's: they are kept under another name.  Answers their names and types, and
-- which keys whose members sort by their bytes had scores, which would change that order.
local now = instant(A[1])

local TYPES = {
  jobs = 'hash', sealed = 'hash', progress = 'hash', results = 'hash', older = 'hash', unique = 'hash', holds = 'hash',
  schedules = 'hash', reserved = 'hash', notes = 'hash', awaits = 'hash', sessions = 'hash', counts = 'hash', runs = 'hash',
  damaged = 'hash', live = 'zset', ended = 'zset', tombs = 'zset',
  queues = 'zset', expiry = 'zset', confirmed = 'zset', ready = 'zset', later = 'zset', expiring = 'zset',
  waiters = 'zset', owners = 'set', paused = 'set', leases = 'set', asked = 'set', wake = 'list',
  paused_at = 'hash', lanes = 'zset', booked = 'zset', running = 'zset', limits = 'hash', gates = 'hash',
  audit = 'hash', audited = 'zset', audit_job = 'zset', audit_who = 'zset', audit_ref = 'zset', audit_number = 'string',
  series = 'zset', series_data = 'hash', flow = 'hash', flows = 'zset', members = 'zset', waiting = 'zset', finished = 'zset',
  deaths = 'zset',
}

local HAS_NO_SCORES = {
  lanes = true, running = true, flows = true, members = true, waiting = true, finished = true,
  deaths = true,
}

-- Whether there were any.
local function remove_scores(key)
  local found = redis.call('ZRANGEBYSCORE', key, '-inf', '(0')
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, '(0', '+inf')) do found[#found + 1] = member end
  for _, member in ipairs(found) do redis.call('ZADD', key, 0, member) end
  return #found > 0
end

local put_aside, unordered = {}, {}
for at = 2, #ARGV do
  local name = sub(ARGV[at], #P + 1)
  local kind = string.match(name, '^[^:]*')
  local wanted, is = TYPES[kind], redis.call('TYPE', ARGV[at]).ok
  if wanted and is ~= wanted and is ~= 'none' then
    redis.call('RENAME', ARGV[at], P .. 'aside:' .. now .. ':' .. name)
    put_aside[#put_aside + 1] = {name, is}
  elseif is == 'zset' and HAS_NO_SCORES[kind] and remove_scores(ARGV[at]) then
    unordered[#unordered + 1] = name
  end
end
return {put_aside, unordered}
