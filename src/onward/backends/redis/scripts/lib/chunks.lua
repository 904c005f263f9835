-- Long commands, and pages of sorted sets.

local CHUNK = 998  -- arguments at a time: even, for pairs, and under what `unpack` can do

local function in_chunks(command, key, values)
  for from = 1, #values, CHUNK do
    redis.call(command, P .. key, unpack(values, from, min(from + CHUNK - 1, #values)))
  end
end

-- The next ids of these sorted sets together.
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
