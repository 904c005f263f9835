-- needs: basics, heads, records, chunks, writes, audit, counting, tokens, waking, lanes, flows, jobs, notes
-- Insert stored jobs into a queue that is reserved for this transfer.  Answers for each 0 if it was stored, 1 if its id is
-- known, or the id of the live job that has its unique key; or, in place of all, for what the queue is reserved.
local now, queue, transfer, stored, confirmed = instant(A[1]), A[2], A[3], A[4], A[5]

-- Places in a job; those of bytes say where they are among the arguments.
local S_ID, S_DEAD, S_RECORD, S_SEALED, S_PROGRESS, S_RESULT, S_RUNS, S_KEY = 1, 2, 3, 4, 5, 6, 7, 8
local S_AWAITS, S_NOTES, S_AUDIT = 9, 10, 11

local reserved = redis.call('HGET', P .. 'reserved', queue)
if reserved ~= transfer then return reserved or '' end

local function confirm(key, id, token, till)
  local raw = hget('holds', key)
  local ends
  if raw then
    local _
    _, _, ends = unpacked(raw)
  end
  if not raw or (type(ends) == 'number' and ends < till) then
    hash('holds', key, cmsgpack.pack(id, token, till))
    zset('confirmed', key, till)
  end
end

local function restore(each)
  local id, raw = each[S_ID], ARGV[each[S_RECORD]]
  if each[S_DEAD] then
    zset('ended:' .. DISCARDED, id, 0)
    count(queue, DISCARDED, 1)
    local record = decode_finished(id, raw)
    if record.died then zset('deaths', deaths.member(record), 0) end
    if is(record, IS_MEMBER) then zset(flows.finished(record), id, 0) end
    if each[S_RESULT] then hash('results', id, ARGV[each[S_RESULT]]) end
  else
    local record = decode(id, raw)
    jobs[id] = record
    zset('live', id, 0)
    index(record, now)
    count(queue, record[STATE], 1)
    if each[S_KEY] then hash('unique', each[S_KEY], id) end
    if each[S_AWAITS] then
      wait_for_signal(record, each[S_AWAITS])
      raw = encode(record)
    end
  end
  hash('jobs', id, raw)
  if each[S_SEALED] then hash('sealed', id, ARGV[each[S_SEALED]]) end
  if each[S_PROGRESS] then hash('progress', id, ARGV[each[S_PROGRESS]]) end
  for _, note in ipairs(each[S_NOTES]) do hash('notes:' .. id, note[1], ARGV[note[2]]) end
  audit.store(each[S_AUDIT], {})
  for _, run in ipairs(each[S_RUNS]) do hash('runs:' .. id, run[1], ARGV[run[2]]) end
end

local ids, answers = {}, {}
for at, each in ipairs(stored) do ids[at] = each[S_ID] end
load(ids)
for _, each in ipairs(confirmed) do confirm(unpack(each)) end
for at, each in ipairs(stored) do
  local holder = each[S_KEY] and hget('unique', each[S_KEY])
  if hget('jobs', each[S_ID]) then
    answers[at] = 1
  elseif holder and job(holder) then
    answers[at] = holder
  else
    restore(each)
    answers[at] = 0
  end
end
flush()
flush_counts()
return answers
