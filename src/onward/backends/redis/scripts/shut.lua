-- needs: basics, heads, records, chunks, writes, audit, counting, tokens, waking, lanes, flows, jobs, limits
-- Shut a lane, or all lanes of a job, until it is opened; or open it: a job with each of its lanes.  Answers whether that changed
-- anything.
local lane, is_opened, entries = A[1], A[2], A[3]
local is_changed = false

local function write(field)
  local gate = limits.gate(field)
  local shut_until = is_opened and 0 or LAST_INSTANT
  is_changed = is_changed or gate.shut_until ~= shut_until or gate.shut_for ~= 0
  gate.shut_until, gate.shut_for = shut_until, 0
  limits.set_gate(field, gate)
end

even_if_full()
write('\n' .. lane)
for _, field in ipairs(is_opened and lane == lanes.group(lane) and redis.call('HKEYS', P .. 'gates') or {}) do
  if limits.is_of_key(field, lane) then write(field) end
end
is_lenient = true
if is_changed then audit.store(entries, {}) end
flush()
limits.wake_all()
return is_changed and 1 or 0
