-- needs: basics, heads, records, chunks, writes, counting, tokens, waking, lanes, flows, jobs
-- A stretch of a walk over all records: those that are whole stand in every index that they belong to.  Answers where the walk
-- goes on, ids and records, one after the other, and the ids of those that cannot be taken apart.
local now, cursor, stretch = instant(A[1]), A[2], A[3]
is_lenient = true

even_if_full()
local scanned = redis.call('HSCAN', P .. 'jobs', cursor, 'COUNT', stretch)
for at = 1, #scanned[2], 2 do
  local id, raw = scanned[2][at], scanned[2][at + 1]
  local record = taken_apart(id, raw, not is_live(raw) and decode_finished or nil)
  if record and is_live(raw) then
    zset('live', id, 0)
    zset('queues', record[QUEUE], 0)
    index(record, now)
    local key = is(record, IS_UNIQUE) and fixed(record)[FIELD.UNIQUE_KEY]
    if key and not hget('unique', key) then hash('unique', key, id) end
  elseif record then
    zset(record[TOMB] == 1 and 'tombs' or 'ended:' .. record[STATE], id, 0)
    if record.died then zset('deaths', deaths.member(record), 0) end
    if is(record, IS_MEMBER) and record[TOMB] == 0 then zset(flows.finished(record), id, 0) end
  end
end
flush()
wake()
return {scanned[1], scanned[2], damaged}
