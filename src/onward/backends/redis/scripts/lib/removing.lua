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

local function forget(id, raw)
  local old = forget_finished(id, raw)
  if hget('older', id) then
    hash('older', id, false)  -- a live job of this id has the rest
  else
    hash('jobs', id, false)
    hash('sealed', id, false)
    hash('progress', id, false)
    redis.call('DEL', P .. 'notes:' .. id)
  end
  redis.call('DEL', P .. 'runs:' .. id)
  return old
end

local function in_order(keys, after, limit, newest_first)
  local found = {}
  for _, key in ipairs(keys) do
    local page
    if newest_first then
      page = redis.call('ZREVRANGEBYLEX', P .. key, after and '(' .. after or '+', '-', 'LIMIT', 0, limit)
    else
      page = redis.call('ZRANGEBYLEX', P .. key, after and '(' .. after or '-', '+', 'LIMIT', 0, limit)
    end
    for _, id in ipairs(page) do found[#found + 1] = id end
  end
  table.sort(found, newest_first and function(a, b) return a > b end or nil)
  local ids = {}
  for at, id in ipairs(found) do
    if #ids == limit then break end
    if id ~= ids[#ids] then ids[#ids + 1] = id end
  end
  return ids
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
  end
end
