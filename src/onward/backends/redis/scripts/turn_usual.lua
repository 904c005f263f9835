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

-- The queues once each, and which of them are open.
local open, drained, known, claim, claimed = {}, {}, {}, nil, {}

-- The sum of what a command answers for all of these keys.
local function exist(keys)
  local found = 0
  for from = 1, #keys, CHUNK do
    found = found + redis.call('EXISTS', unpack(keys, from, min(from + CHUNK - 1, #keys)))
  end
  return found
end

local function has_due(key)
  return #redis.call('ZRANGEBYSCORE', key, '-inf', at_now, 'LIMIT', '0', '1') > 0
end

-- False if a queue has lanes.
local function find_open()
  local members, is_any_marked = {}, redis.call('EXISTS', P .. 'paused') == 1
  for _, queue in ipairs(queues) do
    if not known[queue] then
      known[queue] = true
      if is_any_marked then
        members[#members + 1], members[#members + 2] = queue, '\n' .. queue
      else
        open[#open + 1] = queue
      end
    end
  end
  for from = 1, #members, CHUNK do
    local paused = redis.call('SMISMEMBER', P .. 'paused', unpack(members, from, min(from + CHUNK - 1, #members)))
    for at = 1, #paused, 2 do
      if paused[at + 1] == 1 then return false end
      if paused[at] == 0 then open[#open + 1] = members[from + at - 1] end
    end
  end
  return true
end

local function nothing_is_due()
  local keys = {}
  for at, queue in ipairs(open) do keys[2 * at - 1], keys[2 * at] = P .. 'later:' .. queue, P .. 'expiring:' .. queue end
  if exist(keys) == 0 then return true end
  for _, key in ipairs(keys) do
    if has_due(key) then return false end
  end
  return true
end

-- Choose the next jobs of the queues in their order.  False if one of them is not usual.
local function claim_usual()
  local ids = {}
  for _, queue in ipairs(open) do
    local most = min(at_most[queue] or limit, limit - #ids)
    if most > 0 then
      local page = redis.call('ZRANGE', P .. 'ready:' .. queue, '0', text(most - 1))
      for at = 1, #page do ids[#ids + 1] = sub(page[at], 9) end
      if #page > 0 then claimed[#claimed + 1] = {queue, page} end
      drained[queue] = #page < most
    end
  end
  if #ids == 0 then return true end
  claim = claimer(owner, now)
  for from = 1, #ids, CHUNK do
    local found = redis.call('HMGET', P .. 'jobs', unpack(ids, from, min(from + CHUNK - 1, #ids)))
    for at = 1, #found do
      local id = ids[from + at - 1]
      if seen[id] or not (found[at] and claim.take_usual(id, found[at])) then return false end
      seen[id] = true
    end
  end
  return true
end

if limit > 0 and not (find_open() and nothing_is_due() and claim_usual()) then return false end
local sealed_of = {}
for at, id in ipairs(claim and claim.large or sealed_of) do sealed_of[at] = redis.call('HGET', P .. 'sealed', id) or '' end

redis.call('DEL', P .. 'nothing')  -- after any removal a server whose memory is full lets the rest of a script write
local is_whole, problem = pcall(function()
  if write_completed then write_completed() end
  if claim then write_claimed(claim, owner, claimed) end
end)
flush_counts()
local left, tokens_of = {}, {}
for _, queue in ipairs(open) do
  if not drained[queue] then left[#left + 1] = queue end
  freed[queue] = nil
end
for queue in pairs(freed) do left[#left + 1] = queue end
for at, queue in ipairs(left) do tokens_of[at] = P .. 'wake:' .. queue end
if exist(tokens_of) < #left then
  for _, queue in ipairs(left) do
    if redis.call('EXISTS', P .. 'ready:' .. queue) == 1 then leave_token(queue) end
  end
end
if not is_whole then error(problem) end
return {expires_at, claim and claim.leases or {}, sealed_of, #damaged}
