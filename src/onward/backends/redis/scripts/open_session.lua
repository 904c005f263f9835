-- needs: basics, heads, records, chunks, writes, counting, tokens, waking, lanes, flows, jobs, holds, limits
-- Open or renew a session; with `adopts` it takes over the leases of another one, and the answer names all that it holds.
local now, owner, about, adopts, declared = instant(A[1]), A[2], A[3], A[4], A[5]

if adopts and redis.call('HEXISTS', P .. 'sessions', adopts) == 0
    and redis.call('HEXISTS', P .. 'sessions', owner) == 0 then
  return false
end
even_if_full()
if declared then limits.declare(declared) end
local expires_at = now + about[1]
if adopts and adopts ~= owner then
  hash('sessions', adopts, false)
  zset('expiry', adopts, false)
end
hash('sessions', owner, cmsgpack.pack(about))
zset('expiry', owner, expires_at)
if not adopts then
  flush()
  return {expires_at, {}, {}, cmsgpack.pack({})}
end

if adopts ~= owner then
  local taken_over = redis.call('SMEMBERS', P .. 'leases:' .. adopts)
  load(taken_over)
  for _, id in ipairs(taken_over) do
    local record = named(id)
    if record and record[STATE] == EXECUTING and record[OWNER] == adopts then
      place(record, EXECUTING, now, {[OWNER] = owner})
    else
      damaged[#damaged + 1] = id
    end
  end
  flush()
  flush_counts()
end
local held = redis.call('SMEMBERS', P .. 'leases:' .. owner)
table.sort(held)
load(held)
local sealed, leases, sealed_of, holds, laned = hmget('sealed', held, {}), {}, {}, {}, {}
for _, id in ipairs(held) do
  if not named(id) then error('DAMAGED records') end
end
for at, id in ipairs(held) do
  local record = job(id)
  local hold, holder = hold_of(record, now)
  holds[at] = {at - 1, hold, holder or ''}
  leases[2 * at - 1], leases[2 * at] = id, encode(record)
  if is(record, HAS_LANE) then laned[#laned + 1] = {id, fixed(record)[FIELD.LANE], 0} end
  if record[SIZE] == 0 then sealed_of[#sealed_of + 1] = sealed[id] or '' end
end
flush()
return {expires_at, leases, sealed_of, cmsgpack.pack(holds), #laned > 0 and cmsgpack.pack(laned) or nil}
