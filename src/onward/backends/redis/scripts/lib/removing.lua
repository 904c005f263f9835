-- Removing finished jobs for good, with all that is kept under their ids.

-- The finished among these, by id.
local function finished_among(ids)
  local found = hmget('jobs', ids, {})
  for id, raw in pairs(found) do
    if raw and is_live(raw) then found[id] = finished_record(id) end
    if found[id] and not taken_apart(id, found[id], decode_finished) then found[id] = false end
  end
  if #damaged > 0 then error('DAMAGED records') end
  return found
end

-- From when the retention of a finished job counts: of a member, from the end of its flow.  False: not yet.
function flows.ended_at(record)
  local key = 'flow:' .. fixed(record)[FIELD.FLOW]
  local state = flows.state(key)
  if state == nil or not hget(key, '=' .. fixed(record)[FIELD.NODE]) then return record[ENDED] end
  return state and state.over_at > 0 and math.max(state.over_at, record[ENDED])
end

-- The rows of flows that are over go with the last of their jobs.
function flows.drop_empty()
  for id in pairs(flows.forgotten) do
    local key = 'flow:' .. id
    local state, keys = flows.state(key), {}
    for _, field in ipairs(state and state.over_at > 0 and redis.call('HKEYS', P .. key) or {}) do
      if byte(field) == 61 then  -- a node's
        for ended_as = COMPLETED, CANCELLED do
          keys[#keys + 1] = P .. 'finished:' .. ended_as .. ':' .. id .. '\n' .. sub(field, 2)
        end
      end
    end
    local is_empty = #keys > 0
    for from = 1, #keys, CHUNK do
      is_empty = is_empty and redis.call('EXISTS', unpack(keys, from, min(from + CHUNK - 1, #keys))) == 0
    end
    if is_empty then
      redis.call('DEL', P .. key)
      redis.call('ZREM', P .. 'flows', id)
      redis.call('ZREM', P .. 'flows:running', id)
    end
  end
end

local function forget(id, raw)
  local old = forget_finished(id, raw)
  if hget('older', id) then
    hash('older', id, false)  -- a live job of this id has the rest
  else
    hash('jobs', id, false)
    hash('sealed', id, false)
    hash('progress', id, false)
    redis.call('DEL', P .. 'notes:' .. id)
    audit.forget(id)
  end
  redis.call('DEL', P .. 'runs:' .. id)
  return old
end

-- Removes a live job, with all that is kept under its id.
local function drop_live(record)
  local id = record.id
  unindex(record)
  if is(record, AWAITS) then hash('awaits', id, false) end
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
    redis.call('DEL', P .. 'runs:' .. id, P .. 'notes:' .. id)
    audit.forget(id)
  end
end
