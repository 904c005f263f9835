-- needs: basics, records, chunks, writes, counting, tokens, waking, jobs, removing, showing
-- A stretch of a walk over jobs by id: those that match, and the last id that was looked at, or false at the end.  Each job is
-- seen at one moment, so one that moves meanwhile is seen once.
local states, queue, job_name, after, newest_first, limit, stretch = A[1], A[2], A[3], A[4], A[5], A[6], A[7]

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

local ids
if lives and #states == 1 and states[1] == EXECUTING then
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

local raws, found = hmget('jobs', ids, {}), {}
for _, id in ipairs(ids) do
  local raw = raws[id]
  local record = raw and is_live(raw) and decode(id, raw)
  if raw and not (record and wanted[record[STATE]]) then
    raw = finished_record(id)
    record = raw and decode_finished(id, raw)
  end
  if record and wanted[record[STATE]] and record[TOMB] ~= 1 and (not queue or record[QUEUE] == queue)
      and (not job_name or fixed(record)[JOB] == job_name) then
    found[#found + 1] = shown(id, raw, is_live(raw))
    if #found == limit then return {found, id} end
  end
end
return {found, #ids == stretch and ids[#ids] or false}
