-- needs: basics, heads, records, chunks, writes, audit, counting, tokens, waking, lanes, flows, jobs, removing
-- Remove jobs of a queue that is reserved for this transfer, if they do not run and still are what was read.  Answers their
-- ids; or, in place of them, for what the queue is reserved.
local queue, transfer, seen = A[1], A[2], A[3]

local reserved = redis.call('HGET', P .. 'reserved', queue)
if reserved ~= transfer then return reserved or '' end

-- The finished job of this id, where no other one lives under the id again.
local function dead(id)
  local raw = hget('jobs', id)
  if not raw or is_live(raw) then return nil end
  local record = taken_apart(id, raw, decode_finished)
  if record and record[TOMB] == 0 then return record, raw end
end

-- Whether the notes of a job are those that were read.
local function has_notes(id, read)
  local key = P .. 'notes:' .. id
  if redis.call('HLEN', key) ~= #read then return false end
  for _, note in ipairs(read) do
    if redis.call('HGET', key, note[1]) ~= ARGV[note[2]] then return false end
  end
  return true
end

even_if_full()
local ids, gone = {}, {}
for at, each in ipairs(seen) do ids[at] = each[1] end
load(ids)
for _, each in ipairs(seen) do
  local id, is_dead, notes, state, delivery, attempts, crashes, interruptions, at = unpack(each)
  local record, raw
  if is_dead then record, raw = dead(id) else record = job(id) end
  if record and record[QUEUE] == queue and record[STATE] == state and record[DELIVERY] == delivery
      and record[ATTEMPTS] == attempts and record[CRASHES] == crashes and record[INTERRUPTIONS] == interruptions
      and (is_dead and record[ENDED] or record[AT]) == at and has_notes(id, notes) then
    if is_dead then forget(id, raw) else drop_live(record) end
    gone[#gone + 1] = id
  end
end
flush()
flows.drop_empty()
flush_counts()
return gone
