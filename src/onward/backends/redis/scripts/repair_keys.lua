-- needs: basics
-- Put keys aside that are of another type than Onward's: they are kept under another name.  Answers their names and types.
local now = instant(A[1])

local TYPES = {
  jobs = 'hash', sealed = 'hash', progress = 'hash', results = 'hash', older = 'hash', unique = 'hash', holds = 'hash',
  schedules = 'hash', reserved = 'hash', notes = 'hash', awaits = 'hash', sessions = 'hash', counts = 'hash', runs = 'hash',
  damaged = 'hash', live = 'zset', ended = 'zset', tombs = 'zset',
  queues = 'zset', expiry = 'zset', confirmed = 'zset', ready = 'zset', later = 'zset', expiring = 'zset',
  waiters = 'zset', owners = 'set', paused = 'set', leases = 'set', asked = 'set', wake = 'list',
  lanes = 'zset', booked = 'zset', running = 'zset', limits = 'hash', gates = 'hash',
}

local put_aside = {}
for at = 2, #ARGV do
  local name = sub(ARGV[at], #P + 1)
  local wanted, is = TYPES[string.match(name, '^[^:]*')], redis.call('TYPE', ARGV[at]).ok
  if wanted and is ~= wanted and is ~= 'none' then
    redis.call('RENAME', ARGV[at], P .. 'aside:' .. now .. ':' .. name)
    put_aside[#put_aside + 1] = {name, is}
  end
end
return put_aside
