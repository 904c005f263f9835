-- needs: basics, heads, records, chunks, writes, counting, tokens, waking, lanes, flows, jobs, graph, looking, notes, holds, settling, usual, retrying, adding, limits, walking
-- Settle, promote what is due, claim.
-- Plain acks, nearly all there are, come as ids and tokens, and plain retries as lists of what each has; of these only those
-- are answered that were not completed, or not put back.
local now, owner, settlements, queues, limit, at_most = instant(A[1]), A[2], A[3], A[4], A[5], A[6]
local acked, tokens, drop = A[7], A[8], A[9]
retries.given = A[13]
is_lenient = true  -- what others have settled is written before what is due is looked at

local function as_settlement(at) return {acked[at], tokens[at], true, 'ack', true, nil, drop} end

local expires_at = redis.call('ZSCORE', P .. 'expiry', owner)
local answers, others = {}, {}
if not expires_at or redis.call('HEXISTS', P .. 'sessions', owner) == 0 then
  for at, settlement in ipairs(settlements) do answers[at] = classify(settlement) end
  for at = 1, #acked do others[at] = {at - 1, classify(as_settlement(at))} end
  for at = 1, #retries.given[retries.IDS] do others[#acked + at] = {#acked + at - 1, classify(retries.settlement(at))} end
  return {0, cmsgpack.pack(answers), cmsgpack.pack(others)}
end

even_if_full()

local released = {}  -- by id, and one after the other

local ended_leases, letters = {}, {}

local function settle_unusual(settlement)
  local answer, record = settle_one(settlement, owner, now)
  if record then
    if settlement[S.MOVE] == 'release' then
      released[record.id] = true
      released[#released + 1] = record.id
    end
    if is(record, HAS_HOLDS) then ended_leases[#ended_leases + 1] = {record, settlement[S.MOVE] == 'ack'} end
    if settlement[S.LETTER] and answer == DISCARDED then letters[#letters + 1] = settlement[S.LETTER] end
    if settlement[S.GATE] then limits.change_gate(settlement[S.GATE], now) end
  end
  return answer
end

-- What the look needs of a member.  False: its record says something else, and is taken apart.
local function note_member(id, raw, rest_from)
  local is_whole, _, _, _, _, _, _, _, _, _, _, carried = pcall(cmsgpack.unpack_limit, raw, SPENT - FIXED + 1, rest_from)
  local flow, node = is_whole and type(carried) == 'table' and carried[FIELD.FLOW], is_whole and carried[FIELD.NODE]
  if type(flow) ~= 'string' or type(node) ~= 'string' then return false end
  flows.completed(id, flow, node)
  return true
end

local function settle_all()
  local ids, unusual, rest, seen = {}, {}, {}, {}
  for at, settlement in ipairs(settlements) do ids[at] = settlement[S.ID] end
  if #ids + #retries.given[retries.IDS] > 0 and limit > 0 then
    for _, queue in ipairs(queues) do promotes[queue] = redis.call('SISMEMBER', P .. 'paused', queue) == 0 end
  end
  load(ids)
  local complete, write = completer(owner, now, note_member)
  for from = 1, #acked, CHUNK do
    local to = min(from + CHUNK - 1, #acked)
    local found = redis.call('HMGET', P .. 'jobs', unpack(acked, from, to))
    for at = from, to do
      local raw = found[at - from + 1]
      if complete(acked[at], raw, tokens[at], drop) then
        jobs[acked[at]] = false
      else
        unusual[#unusual + 1] = at
        raws[acked[at]] = raw
      end
    end
  end
  local unusually_failed, write_retried = retries.gather(owner, now, seen)
  for at, settlement in ipairs(settlements) do
    local id = settlement[S.ID]
    if settlement[S.MOVE] == 'ack' and settlement[S.OWN] and not settlement[S.REASON] and not settlement[S.FAILURE]
        and not seen[id] and jobs[id] == nil
        and complete(id, raws[id], settlement[S.TOKEN], settlement[S.DROP], settlement[S.RESULT]) then
      answers[at], jobs[id] = COMPLETED, false
    else
      rest[#rest + 1] = at
    end
    seen[id] = true
  end
  write()
  write_retried()
  for _, at in ipairs(unusual) do
    local answer = settle_unusual(as_settlement(at))
    if answer ~= COMPLETED then others[#others + 1] = {at - 1, answer} end
  end
  for _, at in ipairs(unusually_failed) do
    local answer = settle_unusual(retries.settlement(at))
    if answer ~= RETRYABLE then others[#others + 1] = {#acked + at - 1, answer} end
  end
  for _, at in ipairs(rest) do answers[at] = settle_unusual(settlements[at]) end
  for _, over in ipairs(ended_leases) do end_holds(over[1], now, over[2]) end
  if #letters > 0 then
    load_envelopes(letters)
    for _, letter in ipairs(letters) do add(letter, now, false) end
  end
  flush()
  for _, letter in ipairs(letters) do jobs[letter[E.ID]], raws[letter[E.ID]] = nil, nil end  -- the claim may read it
end

local marked = {}  -- queues that need a walk

local function promote(ids)
  load(ids)
  for _, id in ipairs(ids) do
    local record = named(id)
    if record and record[STATE] ~= EXECUTING then
      place(record, AVAILABLE, now)
      if is(record, HAS_LANE) then marked[record[QUEUE]] = true end
    end
  end
  if #ids > 0 then flush() end
  return #ids
end

local function expire_and_promote(queue)
  local gone = redis.call('ZRANGEBYSCORE', P .. 'expiring:' .. queue, '-inf', now, 'LIMIT', 0, limit)
  load(gone)
  for _, id in ipairs(gone) do
    local record = named(id)
    if record and record[STATE] ~= EXECUTING then finish(record, CANCELLED, now, 'expired') end
  end
  if #gone > 0 then flush() end
  local count = promote(redis.call('ZRANGEBYSCORE', P .. 'later:' .. queue, '-inf', now, 'LIMIT', 0, limit))
  if not marked[queue] then return count end
  return count + promote(redis.call('ZRANGEBYSCORE', P .. 'booked:' .. queue, '-inf', now, 'LIMIT', 0, 200))
end

local function has_expired(record)
  return is(record, EXPIRES) and fixed(record)[FIELD.EXPIRES_AT] <= now
end

local claim = claimer(owner, now)
local holds, claimed = {}, {}  -- claimed: by queue, what leaves its line

local function take_other(record)
  record[STATE], record[OWNER], record[STARTED], record[DELIVERY] = EXECUTING, owner, now, record[DELIVERY] + 1
  if is(record, HAS_HOLDS) then
    local hold, holder = take_holds(record, now)
    holds[#holds + 1] = {claim.size, hold, holder or ''}
  end
  if is(record, EXPIRES) then zset('expiring:' .. record[QUEUE], record.id, false) end
  if record[SIZE] == 0 then claim.large[#claim.large + 1] = record.id end
  claim.take(record.id, encode(record))
end

-- Claim the next jobs of a queue; false once a suspect ended the claim: it is taken alone, if it stands first.
local function claim_from(queue)
  local before, most = claim.size, claim.size + min(at_most[queue] or limit, limit - claim.size)
  local seen, taken, has_gaps, goes_on = 0, {}, false, true
  while goes_on and claim.size < most do
    local size = min(most - claim.size + #released, CHUNK)
    local page = redis.call('ZRANGE', P .. 'ready:' .. queue, seen, seen + size - 1)
    local known = {}
    for at = 1, #page do known[at] = sub(page[at], 9) end
    local raw_of = #page > 0 and redis.call('HMGET', P .. 'jobs', unpack(known))
    for at = 1, #page do
      local id, raw = known[at], raw_of[at]
      if raw and not released[id] and claim.take_usual(id, raw) then
        jobs[id], raws[id] = nil, nil  -- a look may read it again
        taken[#taken + 1] = page[at]
      else
        local record = named(id)
        if not record or record[STATE] == EXECUTING or released[id] or has_expired(record) then
          has_gaps = true
        else
          local is_suspect = record[CRASHES] > 0
          if not is_suspect or claim.size == 0 then
            take_other(record)
            taken[#taken + 1] = page[at]
          end
          goes_on = not is_suspect
        end
      end
      if claim.size == most or not goes_on then break end
    end
    seen = seen + #page
    if #page < size then break end
  end
  if claim.size > before then claimed[#claimed + 1] = {queue, taken, has_gaps} end
  return goes_on and claim.size < limit
end

local walk, laned = nil, {}  -- of the leases that have a lane: id, lane and for how long it was shut, if they probe

-- Claim from queues of which one at least has lanes, or a limit.
local function walk_through(queues)
  local function take_from(queue, record, member, lane, probe)
    local from = claimed[#claimed]
    if not from or from[1] ~= queue then
      from = {queue, {}, true, 0}
      claimed[#claimed + 1] = from
    end
    if lane == '' then
      from[2][#from[2] + 1] = member
    else
      lanes.index(record, false)
      laned[#laned + 1] = {record.id, lane, probe}
    end
    from[4] = from[4] + 1
    take_other(record)
    if lane ~= '' then lanes.count(record, 0) end
  end
  walk = new_walk(now, {
    limit = limit, begins = A[10], cursors = A[11], seed = A[12], released = released, is_bounded = true, take = take_from,
  })
  for _, queue in ipairs(queues) do
    local awaited_slots = walk.awaits_slots
    walk.awaits_slots = false
    local is_done = walk.through(queue, at_most[queue] or limit)
    quiet[queue] = is_done and not walk.awaits_slots and #released == 0
    walk.awaits_slots = walk.awaits_slots or awaited_slots
  end
  walk.write()
end

local promoted, asked, sealed_of = 0, {}, {}
local is_whole, problem = pcall(function()
  if #settlements + #acked + #retries.given[retries.IDS] > 0 then settle_all() end
  for _, id in ipairs(redis.call('SMEMBERS', P .. 'asked:' .. owner)) do
    local record = named(id)
    if record then asked[#asked + 1] = {id, record[DELIVERY]} end
  end
  if limit == 0 then return end
  local open, known, walks = {}, {}, false
  for _, queue in ipairs(queues) do
    if not known[queue] then
      local seen = redis.call('SMISMEMBER', P .. 'paused', queue, '\n' .. queue)
      if seen[1] == 0 then open[#open + 1], marked[queue] = queue, seen[2] == 1 end
    end
    known[queue] = true
  end
  promoted = at_once
  for _, queue in ipairs(open) do promoted = promoted + expire_and_promote(queue) end
  for _, queue in ipairs(open) do walks = walks or (marked[queue] and limits.walks(queue)) end
  if walks then
    walk_through(open)
  else
    for _, queue in ipairs(open) do
      if not claim_from(queue) then break end
    end
  end
  if claim.size > 0 then
    local sealed = hmget('sealed', claim.large, {})
    for at, id in ipairs(claim.large) do sealed_of[at] = sealed[id] or '' end
    write_claimed(claim, owner, claimed)
  end
  if claim.size > 0 or walks then flush() end
  for _, queue in ipairs(open) do
    if marked[queue] then lanes.wakes(queue) else wakes[queue] = wakes[queue] or true end
  end
end)
-- The leases are written: whatever a flow holds, this turn answers.
if not pcall(is_whole and flows.look or flows.look_all_the_same, now) then damaged[#damaged + 1] = 'flows' end
flush_counts()
wake()
if not is_whole then error(problem) end
return {
  1, cmsgpack.pack(answers), cmsgpack.pack(others), expires_at, promoted, claim.leases, sealed_of, cmsgpack.pack(holds),
  cmsgpack.pack(asked), #damaged > 0 and 1 or walk and 0 or nil, walk and walk.answer(laned),
}
