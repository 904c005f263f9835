-- needs: basics, heads, records, chunks, writes, counting, tokens, waking, lanes, flows, jobs, removing, showing
-- A stretch of a walk over jobs by id: those that match, and the last id that was looked at, or false at the end.  Each job is
-- seen at one moment, so one that moves meanwhile is seen once.  A walk over all jobs also tells whether there are records
-- that no index names: it would not find them.
local states, queue, job_name, after, newest_first, limit, stretch = A[1], A[2], A[3], A[4], A[5], A[6], A[7]
local flow, nodes = A[8], A[9]  -- of members

local wanted, keys, lives = {}, {}, false
for _, state in ipairs(states) do
  wanted[state] = true
  if state >= COMPLETED then
    keys[#keys + 1] = 'ended:' .. state
  else
    lives = true
  end
end
if lives then keys[#keys + 1] = 'live' end
if flow then
  keys = {}
  for _, node in ipairs(nodes) do
    local place = flow .. '\n' .. node
    if lives then keys[#keys + 1] = 'members:' .. place end
    for state = COMPLETED, CANCELLED do
      if wanted[state] then keys[#keys + 1] = 'finished:' .. state .. ':' .. place end
    end
  end
  stretch = math.max(50, math.ceil(stretch / math.max(1, #keys)))
end

local wants_all = #states == CANCELLED and not queue and not job_name and not flow

local ids
if not flow and lives and #states == 1 and states[1] == EXECUTING then
  -- Few run, however many wait.
  ids = {}
  for _, owner in ipairs(redis.call('SMEMBERS', P .. 'owners')) do
    for _, id in ipairs(redis.call('SMEMBERS', P .. 'leases:' .. owner)) do
      if not after or (newest_first and id < after) or (not newest_first and id > after) then ids[#ids + 1] = id end
    end
  end
  table.sort(ids, newest_first and function(a, b) return a > b end or nil)
  stretch = #ids + 1
else
  ids = in_order(keys, after, stretch, newest_first)
end

local hides = false
if wants_all and not after then
  local named = 0
  for _, key in ipairs({'live', 'ended:' .. COMPLETED, 'ended:' .. DISCARDED, 'ended:' .. CANCELLED, 'tombs'}) do
    named = named + redis.call('ZCARD', P .. key)
  end
  hides = redis.call('HLEN', P .. 'jobs') > named
end

local raws, found = hmget('jobs', ids, {}), {}
for _, id in ipairs(ids) do
  local raw = raws[id]
  local is_damaged = not raw
  hides = hides or (wants_all and not raw) -- in place of one that has a record
  local record = raw and is_live(raw) and taken_apart(id, raw)
  if raw and record == false then
    is_damaged = is_live(raw)
    if not is_damaged then
      record = taken_apart(id, raw, decode_finished)
      is_damaged = not record
    end
  elseif record and not wanted[record[STATE]] then
    raw = finished_record(id)
    record = raw and taken_apart(id, raw, decode_finished)
  end
  if is_damaged then
    -- Its state is not known: only a query for all jobs shows it.
    if wants_all then found[#found + 1] = {id, raw or '', '', false, false, {}, 0, 0} end
  elseif record and wanted[record[STATE]] and record[TOMB] ~= 1 and (not queue or record[QUEUE] == queue)
      and (not job_name or fixed(record)[FIELD.JOB] == job_name) then
    found[#found + 1] = shown(id, raw, is_live(raw))
  end
  if #found == limit then return {found, id, hides} end
end
return {found, #ids == stretch and ids[#ids] or false, hides}
