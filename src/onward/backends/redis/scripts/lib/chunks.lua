-- Long commands.

local CHUNK = 998  -- arguments at a time: even, for pairs, and under what `unpack` can do

local function in_chunks(command, key, values)
  for from = 1, #values, CHUNK do
    redis.call(command, P .. key, unpack(values, from, min(from + CHUNK - 1, #values)))
  end
end
