-- needs: basics, records, chunks, writes, counting, tokens, waking, jobs, removing, transfer
-- Store jobs at rest in this queue, over the copies that are at rest there.  For each 0 if it was stored, 1 if the job is known
-- already, or the id of the live job that has its unique key.
local now, queue, parcels = instant(A[1]), A[2], A[3]

-- Places in a parcel; those of bytes say where they are among the arguments.
local P_ID, P_DEAD, P_RECORD, P_SEALED, P_PROGRESS, P_RESULT, P_RUNS, P_KEY, P_CONFIRMED = 1, 2, 3, 4, 5, 6, 7, 8, 9

local ids = {}
for at, parcel in ipairs(parcels) do ids[at] = parcel[P_ID] end
load(ids)
for _, id in ipairs(ids) do
  local copy = waiting_in(id, queue)
  local dead, raw = dead_in(id, queue)
  if copy then
    drop_live(copy)
  elseif dead then
    forget(id, raw)
  end
end

local function confirm(key, id, token, till)
  local raw = hget('holds', key)
  local ends
  if raw then
    local _
    _, _, ends = unpacked(raw)
  end
  -- A key that is held here now, or done for longer, stays as it is.
  if not raw or (type(ends) == 'number' and ends < till) then
    hash('holds', key, cmsgpack.pack(id, token, till))
    zset('confirmed', key, till)
  end
end

local function store(parcel)
  local id, raw = parcel[P_ID], ARGV[parcel[P_RECORD]]
  if parcel[P_DEAD] then
    zset('ended:' .. DISCARDED, id, 0)
    count(queue, DISCARDED, 1)
    if parcel[P_RESULT] then hash('results', id, ARGV[parcel[P_RESULT]]) end
  else
    local record = decode(id, raw)
    jobs[id] = record
    zset('live', id, 0)
    index(record, now)
    count(queue, record[STATE], 1)
    if parcel[P_KEY] then hash('unique', parcel[P_KEY], id) end
  end
  hash('jobs', id, raw)
  if parcel[P_SEALED] then hash('sealed', id, ARGV[parcel[P_SEALED]]) end
  if parcel[P_PROGRESS] then hash('progress', id, ARGV[parcel[P_PROGRESS]]) end
  for _, run in ipairs(parcel[P_RUNS]) do hash('runs:' .. id, run[1], ARGV[run[2]]) end
  if parcel[P_CONFIRMED] then confirm(unpack(parcel[P_CONFIRMED])) end
end

local answers = {}
for at, parcel in ipairs(parcels) do
  local holder = parcel[P_KEY] and hget('unique', parcel[P_KEY])
  if hget('jobs', parcel[P_ID]) then
    answers[at] = 1
  elseif holder and job(holder) then
    answers[at] = holder
  else
    store(parcel)
    answers[at] = 0
  end
end
flush()
flush_counts()
return answers
