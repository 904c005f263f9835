-- needs: basics, heads, records, chunks, writes, audit, counting, tokens, waking, lanes, flows, jobs, removing, limits
-- One batch of a walk over the finished jobs by id, and of one over gates: those that say nothing any more are dropped.
local now, cutoffs, after, limit, tombstone, holds = instant(A[1]), A[2], A[3], A[4], A[5], A[6]
local queue, dry_run, gates_cursor, audit_kept_for = A[7], A[8], A[9], A[10]

even_if_full()
for _, key in ipairs(dry_run and {} or redis.call('ZRANGEBYSCORE', P .. 'confirmed', '-inf', now, 'LIMIT', 0, holds)) do
  local raw = redis.call('HGET', P .. 'holds', key)
  local _, _, till = unpacked(raw or '')
  if type(till) == 'number' and till <= now then hash('holds', key, false) end
  zset('confirmed', key, false)
end

local gates = dry_run and {gates_cursor, {}} or redis.call('HSCAN', P .. 'gates', gates_cursor, 'COUNT', 200)
for at = 1, #gates[2], 2 do
  if limits.is_idle(limits.gate(gates[2][at]), now) then hash('gates', gates[2][at], false) end
end

if not dry_run then audit.drop_old(now - audit_kept_for, limit) end
local ids = in_order({'ended:5', 'ended:6', 'ended:7', 'tombs'}, after, limit)
local records, removed = finished_among(ids), {}
for _, id in ipairs(ids) do
  if not records[id] then error('DAMAGED records') end
  local record = decode_finished(id, records[id])
  local cutoff = record[TOMB] == 1 and now - tombstone or cutoffs[record[STATE] - RETRYABLE]
  local ended_at = is(record, IS_MEMBER) and flows.ended_at(record)
  if not is(record, IS_MEMBER) then ended_at = record[ENDED] end
  if cutoff and ended_at and ended_at < cutoff and (not queue or record[QUEUE] == queue) then
    if not dry_run then forget(id, records[id]) end
    removed[#removed + 1] = {record[QUEUE], record[STATE]}
  end
end
flush()
flows.drop_empty()
flush_counts()
return {#ids == limit and ids[#ids] or false, removed, gates[1]}
