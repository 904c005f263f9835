-- Transfer between stores: removing jobs at rest with all that is kept under their ids.

local function drop_live(record)
  local id = record.id
  unindex(record)
  free_key(record)
  count(record[QUEUE], record[STATE], -1)
  jobs[id] = false
  zset('live', id, false)
  local older = is(record, IS_AGAIN) and hget('older', id)
  if older then
    -- The finished job of this id that was put aside is all that is left of it.
    local raw, sealed, progress = unpacked(older)
    hash('jobs', id, raw)
    hash('sealed', id, sealed ~= '' and sealed)
    hash('progress', id, progress ~= '' and progress)
    hash('older', id, false)
  else
    hash('jobs', id, false)
    hash('sealed', id, false)
    hash('progress', id, false)
    redis.call('DEL', P .. 'runs:' .. id)
  end
end

-- The dead job of this id in this queue, where no other one lives under the id again.
local function dead_in(id, queue)
  local raw = hget('jobs', id)
  if not raw or is_live(raw) then return nil end
  local record = taken_apart(id, raw, decode_finished)
  if record and record[STATE] == DISCARDED and record[TOMB] == 0 and record[QUEUE] == queue then return record, raw end
end

-- The waiting job of this id in this queue.
local function waiting_in(id, queue)
  local record = job(id)
  if record and record[STATE] ~= EXECUTING and record[QUEUE] == queue then return record end
end
