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

local released = {}  -- by id, and one after the other
local USUAL = '\0\0\0'  -- no owner, no flags, no suspect
local USUAL_TAIL = '\0\0'
local LARGE = '\0\0\0\0'  -- a size: the sealed bytes lie elsewhere

local function settle_all()
  local ids, ended_leases, letters = {}, {}, {}
  for at, settlement in ipairs(settlements) do ids[at] = settlement[S_ID] end
  load(ids)
  for _, at in ipairs(complete_usual(settlements, owner, now, answers)) do
    local settlement = settlements[at]
    local answer, record = settle_one(settlement, owner, now)
    answers[at] = answer
    if record then
      if settlement[S_MOVE] == 'release' then
        released[record.id] = true
        released[#released + 1] = record.id
      end
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

-- What was chosen: ids, their places in the order of claims and their queues; the record where it had to be taken apart.
local ids, members, from, apart, chosen = {}, {}, {}, {}, 0
local with_gaps = {}  -- queues in which somebody was passed over

local function take(id, member, queue, record)
  chosen = chosen + 1
  ids[chosen], members[chosen], from[chosen], apart[chosen] = id, member, queue, record or false
end

-- The next jobs of a queue; false once a suspect ended the claim: it is taken alone, if it stands first.
local function choose(queue)
  local most = chosen + min(at_most[queue] or limit, limit - chosen)
  local seen = 0
  while chosen < most do
    local size = min(most - chosen + #released, 1000)
    local page = redis.call('ZRANGE', P .. 'ready:' .. queue, seen, seen + size - 1)
    local known = {}
    for at, member in ipairs(page) do known[at] = sub(member, 9) end
    load(known)
    for at, id in ipairs(known) do
      local raw = jobs[id] == nil and raws[id]
      if raw and sub(raw, 6, 8) == USUAL then
        take(id, page[at], queue)
      else
        local record = job(id)
        if released[id] or has_expired(record) then
          with_gaps[queue] = true
        else
          if record[CRASHES] > 0 then
            if chosen == 0 then take(id, page[at], queue, record) end
            return false
          end
          take(id, page[at], queue, record)
        end
      end
      if chosen == most then break end
    end
    seen = seen + #page
    if #page < size then break end
  end
  return chosen < limit
end

local leases, holds = {}, {}

-- The next delivery number, owner and start: for the usual job by joining strings.
local function claim_chosen()
  local sealed, heads, records, by_queue = {}, {}, {}, {}
  local owned, tail = owner_bytes(owner), USUAL_TAIL .. due(now)
  local large = {}
  for at, id in ipairs(ids) do
    local record = apart[at]
    if (record and record[SIZE] == 0) or (not record and sub(raws[id], 25, 28) == LARGE) then large[#large + 1] = id end
  end
  hmget('sealed', large, sealed)
  for at, id in ipairs(ids) do
    local record, raw = apart[at], nil
    if record then
      record[STATE], record[OWNER], record[STARTED], record[DELIVERY] = EXECUTING, owner, now, record[DELIVERY] + 1
      if is(record, HAS_HOLDS) then
        local hold, holder = take_holds(record, now)
        holds[#holds + 1] = {at - 1, hold, holder or ''}
      end
      if is(record, EXPIRES) then zset('expiring:' .. record[QUEUE], id, false) end
      raw = encode(record)
    else
      raw = raws[id]
      local delivery = sub(raw, 2, 5)
      local head = heads[delivery]
      if not head then
        head = struct.pack('>BI4', EXECUTING, struct.unpack('>I4', delivery) + 1) .. owned .. tail
        heads[delivery] = head
      end
      raw = head .. sub(raw, 17)
      raws[id] = raw
    end
    records[2 * at - 1], records[2 * at] = id, raw
    leases[3 * at - 2], leases[3 * at - 1], leases[3 * at] = id, raw, sealed[id] or ''
    local queue = from[at]
    local taken = by_queue[queue]
    if not taken then
      taken = {}
      by_queue[queue] = taken
    end
    taken[#taken + 1] = members[at]
  end
  for queue, taken in pairs(by_queue) do
    if with_gaps[queue] then
      in_chunks('ZREM', 'ready:' .. queue, taken)
    else
      redis.call('ZREMRANGEBYRANK', P .. 'ready:' .. queue, 0, #taken - 1)  -- which looks for none of them
    end
    count(queue, AVAILABLE, -#taken)
    count(queue, EXECUTING, #taken)
  end
  in_chunks('HSET', 'jobs', records)
  in_chunks('SADD', 'leases:' .. owner, ids)
  redis.call('SADD', P .. 'owners', owner)
  flush()
end

if #settlements > 0 then settle_all() end

local promoted = 0
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
  if chosen > 0 then claim_chosen() end
  for _, queue in ipairs(open) do wakes[queue] = wakes[queue] or true end
end
flush_counts()
wake()

local asked = {}
for _, id in ipairs(redis.call('SMEMBERS', P .. 'asked:' .. owner)) do asked[#asked + 1] = {id, job(id)[DELIVERY]} end
return {1, cmsgpack.pack(answers), expires_at, now, promoted, leases, cmsgpack.pack(holds), cmsgpack.pack(asked)}
