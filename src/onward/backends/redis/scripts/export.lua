-- needs: basics, records, chunks, writes, counting, tokens, waking, jobs, removing, showing, transfer
-- Those of these jobs that are at rest in this queue, as they are shown; whether each holds its unique key, and the
-- pointer of its idempotency key.
local ids, queue = A[1], A[2]

load(ids)
local found = {}
for _, id in ipairs(ids) do
  local record = waiting_in(id, queue)
  local lives = record and true or false
  record = record or dead_in(id, queue)
  if record then
    local carried = fixed(record)
    local holds = lives and carried[UNIQUE_KEY] and hget('unique', carried[UNIQUE_KEY]) == id
    local pointer = carried[IDEMPOTENCY_KEY] and hget('holds', 'once:' .. carried[IDEMPOTENCY_KEY])
    found[#found + 1] = {shown(id, redis.call('HGET', P .. 'jobs', id), lives), holds and 1 or 0, pointer or ''}
  end
end
return found
