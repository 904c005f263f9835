-- What records begin with, while they live and when they have ended.

-- What a settlement compares: state, delivery, owner.
local function fence(state, delivery, owner)
  return struct.pack(FORMAT.fence, state, delivery, owner and #owner + 1 or 0) .. (owner or '')
end

local function patch(state, now, reason, tomb, ran, died)
  local packed = (died and ARRAY.death or ARRAY.patch) .. cmsgpack.pack(state, now, reason, tomb and 1 or 0, ran and 1 or 0)
  if died then packed = packed .. cmsgpack.pack(died) end
  return struct.pack(FORMAT.length, #packed) .. packed
end

-- Ids whose records cannot be taken apart, or that an index names wrongly.  A script that writes all at once fails instead,
-- and has done nothing: `set_aside_and_repeat` sets them aside and calls it again.
local damaged, is_lenient = {}, false
