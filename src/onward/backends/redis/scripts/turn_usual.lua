-- needs: basics, heads, chunks, counting, tokens, usual
-- What `turn` does, where nothing is unusual, without its functions: a call makes those anew, which takes longer than to settle
-- one job and claim another.  False, and nothing written, if anything takes more: a settlement that is not applied, a queue
-- with lanes, a job that is due, expires or was asked to cancel.
local now, owner, queues, limit, at_most = instant(A[1]), A[2], A[3], A[4], A[5]
local acked, tokens, drop = A[6], A[7], A[8]

local expires_at = redis.call('ZSCORE', P .. 'expiry', owner)
if not expires_at or redis.call('HEXISTS', P .. 'sessions', owner) == 0
    or redis.call('EXISTS', P .. 'asked:' .. owner) == 1 then
  return false
end

local at_now = string.format('%.0f', now)
local seen, write_completed = {}, nil
if #acked > 0 then
  local complete
  complete, write_completed = completer(owner, now)
  for from = 1, #acked, CHUNK do
    local found = redis.call('HMGET', P .. 'jobs', unpack(acked, from, min(from + CHUNK - 1, #acked)))
    for at = 1, #found do
      local id = acked[from + at - 1]
      if seen[id] or not complete(id, found[at], tokens[from + at - 1], drop) then return false end
      seen[id] = true
    end
  end
end

local claim, claimed, open = nil, {}, {}

-- The next jobs of a queue: false if one of them is not usual.
local function claim_from(queue)
  local before = claim and claim.size or 0
  local most, taken = min(at_most[queue] or limit, limit - before), {}
  while #taken < most do
    local size = min(most - #taken, CHUNK)
    local page, ids = redis.call('ZRANGE', P .. 'ready:' .. queue, #taken, #taken + size - 1), {}
    if #page == 0 then break end
    claim = claim or claimer(owner, now)
    for at = 1, #page do ids[at] = sub(page[at], 9) end
    local found = redis.call('HMGET', P .. 'jobs', unpack(ids))
    for at = 1, #page do
      if seen[ids[at]] or not (found[at] and claim.take_usual(ids[at], found[at])) then return false end
      seen[ids[at]] = true
      taken[#taken + 1] = page[at]
    end
    if #page < size then break end
  end
  if #taken > 0 then claimed[#claimed + 1] = {queue, taken} end
  return true
end

local function has_due(key)
  return #redis.call('ZRANGEBYSCORE', key, '-inf', at_now, 'LIMIT', '0', '1') > 0
end

if limit > 0 then
  for _, queue in ipairs(queues) do
    if not open[queue] then
      local paused = redis.call('SMISMEMBER', P .. 'paused', queue, '\n' .. queue)
      if paused[2] == 1 then return false end
      open[queue] = paused[1] == 0 and 'open' or 'paused'
      if paused[1] == 0 then
        if has_due(P .. 'expiring:' .. queue) or has_due(P .. 'later:' .. queue) then return false end
        if not claim_from(queue) then return false end
      end
    end
  end
end
local sealed_of = {}
for at, id in ipairs(claim and claim.large or sealed_of) do sealed_of[at] = redis.call('HGET', P .. 'sealed', id) or '' end

redis.call('DEL', P .. 'nothing')  -- after any removal a server whose memory is full lets the rest of a script write
local is_whole, problem = pcall(function()
  if write_completed then write_completed() end
  if claim then write_claimed(claim, owner, claimed) end
end)
flush_counts()
for queue in pairs(freed) do open[queue] = 'open' end
for queue, state in pairs(open) do
  if state == 'open' and redis.call('EXISTS', P .. 'ready:' .. queue) == 1 then leave_token(queue) end
end
if not is_whole then error(problem) end
return {expires_at, claim and claim.leases or {}, sealed_of, #damaged}
