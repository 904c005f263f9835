-- needs: basics, heads, records, chunks, writes, audit, counting, tokens, waking, lanes, flows, jobs, notes
-- Store a signal, and make the job due if it waits for it.  Answers state, stored, woken, full.
local now, id, name, again, most, most_bytes, value = instant(A[1]), A[2], '!' .. A[3], A[4], A[5], A[6], ARGV[2]
local entries = A[7]

local record = job(id)
if not record then
  if #damaged > 0 then error('DAMAGED records') end
  local raw = finished_record(id)
  return {raw and decode_finished(id, raw)[STATE] or 0, 0, 0, 0}
end
local state, key = record[STATE], note_key(id)
local before = redis.call('HGET', key, name)
local there = before ~= false
local stored = again or not there
if stored then
  local count, size = redis.call('HLEN', key) - (there and 1 or 0), #value
  for at, part in ipairs(redis.call('HGETALL', key)) do
    if at % 2 == 1 then
      there = part == name
    elseif not there then
      size = size + #part - 8
    end
  end
  if count >= most or size > most_bytes then return {state, 0, 0, 1} end
  -- A value that replaces another keeps its time: a wait that heard the first one has not timed out.
  redis.call('HSET', key, name, (before and before:sub(1, 8) or due(now)) .. value)
  audit.store(entries, {id})
end
local woken = wake_signalled(record, now)
flush()
flush_counts()
wake()
return {state, stored and 1 or 0, woken and 1 or 0, 0}
