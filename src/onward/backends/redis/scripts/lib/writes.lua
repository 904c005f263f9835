-- Writes are kept until `flush` and sent as few, long commands: removals first, so that a server whose memory is full, which
-- refuses a script whose first write needs room, still lets jobs be settled.  Until then nothing was written: a script that
-- fails before has done nothing.

local zsets, hashes, sets = {}, {}, {}
local to_mark = {}  -- queues in which jobs with lanes were moved

-- Note whether claims of a queue have to walk.
local function mark(queue)
  local walks = redis.call('EXISTS', P .. 'lanes:' .. queue, P .. 'booked:' .. queue) > 0
    or redis.call('HEXISTS', P .. 'limits', 'queue:' .. queue) == 1
  redis.call(walks and 'SADD' or 'SREM', P .. 'paused', '\n' .. queue)
end

local function kept(store, key, member, value)
  local members = store[key]
  if not members then
    members = {}
    store[key] = members
  end
  members[member] = value
end

-- `false` removes.
local function zset(key, member, score) kept(zsets, key, member, score) end
local function hash(key, field, value) kept(hashes, key, field, value) end
local function set(key, member, present) kept(sets, key, member, present) end

local function remove(command, store)
  for key, members in pairs(store) do
    local gone = {}
    for member, value in pairs(members) do
      if value == false then gone[#gone + 1] = member end
    end
    if #gone > 0 then in_chunks(command, key, gone) end
  end
end

local function flush()
  if #damaged > 0 and not is_lenient then error('DAMAGED records') end
  remove('ZREM', zsets)
  remove('HDEL', hashes)
  remove('SREM', sets)
  for key, members in pairs(zsets) do
    local values, count = {}, 0
    for member, score in pairs(members) do
      if score then
        values[count + 1], values[count + 2] = score, member
        count = count + 2
      end
    end
    if count > 0 then in_chunks('ZADD', key, values) end
  end
  for key, fields in pairs(hashes) do
    local values, count = {}, 0
    for field, value in pairs(fields) do
      if value then
        values[count + 1], values[count + 2] = field, value
        count = count + 2
      end
    end
    if count > 0 then in_chunks('HSET', key, values) end
  end
  for key, members in pairs(sets) do
    local values = {}
    for member, present in pairs(members) do
      if present then values[#values + 1] = member end
    end
    if #values > 0 then in_chunks('SADD', key, values) end
  end
  zsets, hashes, sets = {}, {}, {}
  for queue in pairs(to_mark) do mark(queue) end
  to_mark = {}
end

local function forget_unwritten()
  zsets, hashes, sets, to_mark = {}, {}, {}, {}
end

-- After any removal, even of nothing, a server whose memory is full lets the rest of a script write.
local function even_if_full()
  redis.call('DEL', P .. 'nothing')
end

local function hget(key, field)
  local fields = hashes[key]
  if fields and fields[field] ~= nil then return fields[field] end
  return redis.call('HGET', P .. key, field)
end

-- Many fields at once, as a table by field; false where there is none.
local function hmget(key, fields, into)
  for from = 1, #fields, CHUNK do
    local to = min(from + CHUNK - 1, #fields)
    local found = redis.call('HMGET', P .. key, unpack(fields, from, to))
    for at = from, to do into[fields[at]] = found[at - from + 1] end
  end
  return into
end
