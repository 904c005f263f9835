-- What every script begins with, after the names of `layout.py`.  KEYS[1] is the prefix of every key; it holds the hash tag, so
-- all of them lie in one slot.

local P = KEYS[1] .. ':'
local A = cmsgpack.unpack(ARGV[1])
local min, sub, byte, band = math.min, string.sub, string.byte, bit.band

-- The server's clock, unless the caller gives an instant: tests move theirs.
local function instant(given)
  if given then return given end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Sorts like the number, as text of equal scores does.
local function due(at)
  return struct.pack('>I8', at)
end
