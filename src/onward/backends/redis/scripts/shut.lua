-- needs: basics, records, chunks, writes, counting, tokens, waking, lanes, flows, jobs, limits
-- Shut a lane, or all lanes of a job, until it is opened; or open it: a job with each of its lanes.
local lane, is_opened = A[1], A[2]

local function write(field)
  local gate = limits.gate(field)
  gate.shut_until, gate.shut_for = is_opened and 0 or LAST_INSTANT, 0
  limits.set_gate(field, gate)
end

even_if_full()
write('\n' .. lane)
for _, field in ipairs(is_opened and lane == lanes.group(lane) and redis.call('HKEYS', P .. 'gates') or {}) do
  if limits.is_of_key(field, lane) then write(field) end
end
is_lenient = true
flush()
limits.wake_all()
