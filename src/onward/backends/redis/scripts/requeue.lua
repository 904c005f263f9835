-- needs: basics, records, chunks, writes, counting, tokens, waking, jobs, removing, transfer
-- Change the queue of waiting and dead jobs, if the queue they are in is paused or need not be.  Answers how many.
local now, ids, queue, onto, if_paused = instant(A[1]), A[2], A[3], A[4], A[5]

if if_paused and redis.call('SISMEMBER', P .. 'paused', queue) == 0 then return -1 end
even_if_full()
load(ids)
local moved = 0
for _, id in ipairs(ids) do
  local record = waiting_in(id, queue)
  local dead, raw = dead_in(id, queue)
  if record then
    place(record, record[STATE], now, {[QUEUE] = onto})
    moved = moved + 1
  elseif dead then
    local length = struct.unpack(FORMAT.length, raw)
    local last = decode(id, sub(raw, FROM.patch + length), true)
    last[QUEUE] = onto
    hash('jobs', id, sub(raw, 1, FROM.patch + length - 1) .. encode(last))
    count(queue, DISCARDED, -1)
    count(onto, DISCARDED, 1)
    moved = moved + 1
  end
end
flush()
flush_counts()
if not if_paused then wake() end
return moved
