-- Schedules: a hash by name, whose rows `layout.py` describes.

local DAMAGED_VERSION, LAST_VERSION = -1, 9007199254740992

local function version_of(raw)
  if not raw then return 0 end
  if #raw < struct.size(FORMAT.schedule) then return DAMAGED_VERSION end
  local version = struct.unpack(FORMAT.schedule, raw)
  return version >= 1 and version <= LAST_VERSION and version or DAMAGED_VERSION
end

-- Removes those of these jobs that were never claimed; answers their ids.
local function remove_unbegun(ids)
  local removed = {}
  load(ids)
  for _, id in ipairs(ids) do
    local record = job(id)
    if record and record[STATE] ~= EXECUTING and record[DELIVERY] == 0 then
      drop_live(record)
      removed[#removed + 1] = id
    end
  end
  return removed
end
