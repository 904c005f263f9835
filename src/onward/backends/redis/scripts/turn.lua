-- needs: records, writes, counting, waking, jobs, holds, settling, adding
-- Settle, promote what is due, claim.
local now, owner, settlements, queues, limit, at_most = instant(A[1]), A[2], A[3], A[4], A[5], A[6]

local expires_at = redis.call('ZSCORE', P .. 'expiry', owner)
local answers = {}
if not expires_at or redis.call('HEXISTS', P .. 'sessions', owner) == 0 then
  for at, settlement in ipairs(settlements) do answers[at] = classify(settlement) end
  return {0, cmsgpack.pack(answers)}
end

even_if_full()

local released = {}

local function settle_all()
  local ids, ended_leases, letters = {}, {}, {}
  for at, settlement in ipairs(settlements) do ids[at] = settlement[S_ID] end
  load(ids)
  for at, settlement in ipairs(settlements) do
    local answer, record = settle_one(settlement, owner, now)
    answers[at] = answer
    if record then
      if settlement[S_MOVE] == 'release' then released[record.id] = true end
      if is(record, HAS_HOLDS) then ended_leases[#ended_leases + 1] = {record, settlement[S_MOVE] == 'ack'} end
      if settlement[S_LETTER] and answer == DISCARDED then letters[#letters + 1] = settlement[S_LETTER] end
    end
  end
  for _, over in ipairs(ended_leases) do end_holds(over[1], now, over[2]) end
  if #letters > 0 then
    load_envelopes(letters)
    for _, letter in ipairs(letters) do add(letter, now, false) end
  end
  flush()
end

local function expire_and_promote(queue)
  local gone = redis.call('ZRANGEBYSCORE', P .. 'expiring:' .. queue, '-inf', now, 'LIMIT', 0, limit)
  load(gone)
  for _, id in ipairs(gone) do finish(job(id), CANCELLED, now, 'expired') end
  if #gone > 0 then flush() end
  local ripe = redis.call('ZRANGEBYSCORE', P .. 'later:' .. queue, '-inf', now, 'LIMIT', 0, limit)
  load(ripe)
  for _, id in ipairs(ripe) do place(job(id), AVAILABLE, now) end
  if #ripe > 0 then flush() end
  return #ripe
end

local function has_expired(record)
  return is(record, EXPIRES) and fixed(record)[EXPIRES_AT] <= now
end

local chosen = {}

-- The next jobs of a queue; false once a suspect ended the claim: it is taken alone, if it stands first.
local function choose(queue)
  local most = #chosen + min(at_most[queue] or limit, limit - #chosen)
  local seen = 0
  while #chosen < most do
    local size = min(most - #chosen + 16, 1000)
    local members = redis.call('ZRANGE', P .. 'ready:' .. queue, seen, seen + size - 1)
    local ids = {}
    for at, member in ipairs(members) do ids[at] = sub(member, 9) end
    load(ids)
    for at, id in ipairs(ids) do
      local record = jobs[id]
      if not released[id] and not has_expired(record) then
        if record[CRASHES] > 0 then
          if #chosen == 0 then chosen[1] = record end
          return false
        end
        chosen[#chosen + 1] = record
        if #chosen == most then break end
      end
    end
    seen = seen + #members
    if #members < size then break end
  end
  return #chosen < limit
end

if #settlements > 0 then settle_all() end

local promoted, leases, holds = 0, {}, {}
if limit > 0 then
  local open, known = {}, {}
  for _, queue in ipairs(queues) do
    if not known[queue] and redis.call('SISMEMBER', P .. 'paused', queue) == 0 then open[#open + 1] = queue end
    known[queue] = true
  end
  for _, queue in ipairs(open) do promoted = promoted + expire_and_promote(queue) end
  for _, queue in ipairs(open) do
    if not choose(queue) then break end
  end
  local ids = {}
  for at, record in ipairs(chosen) do ids[at] = record.id end
  local sealed = hmget('sealed', ids, {})
  for at, record in ipairs(chosen) do
    local id, queue = record.id, record[QUEUE]
    unindex(record)
    record[STATE], record[OWNER], record[STARTED], record[DELIVERY] = EXECUTING, owner, now, record[DELIVERY] + 1
    set('leases:' .. owner, id, true)
    count(queue, AVAILABLE, -1)
    count(queue, EXECUTING, 1)
    if is(record, HAS_HOLDS) then
      local hold, holder = take_holds(record, now)
      holds[#holds + 1] = {at - 1, hold, holder or ''}
    end
    local raw = encode(record)
    hash('jobs', id, raw)
    leases[3 * at - 2], leases[3 * at - 1], leases[3 * at] = id, raw, sealed[id]
  end
  if #chosen > 0 then set('owners', owner, true) end
  flush()
  for _, queue in ipairs(open) do wakes[queue] = wakes[queue] or true end
end
flush_counts()
wake()

local asked = {}
for _, id in ipairs(redis.call('SMEMBERS', P .. 'asked:' .. owner)) do asked[#asked + 1] = {id, job(id)[DELIVERY]} end
return {1, cmsgpack.pack(answers), expires_at, now, promoted, leases, cmsgpack.pack(holds), cmsgpack.pack(asked)}
