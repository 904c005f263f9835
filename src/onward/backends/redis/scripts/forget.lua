-- needs: basics, records, chunks, writes, counting, tokens, waking, jobs, removing, transfer
-- Remove jobs that are at rest in this queue and still are what was copied.  Answers their ids.
local queue, seen = A[1], A[2]

even_if_full()
local ids, gone = {}, {}
for at, each in ipairs(seen) do ids[at] = each[1] end
load(ids)
for _, each in ipairs(seen) do
  local id, dead, state, delivery, attempts, crashes, interruptions, at = unpack(each)
  local record, raw
  if dead then
    record, raw = dead_in(id, queue)
  else
    record = waiting_in(id, queue)
  end
  if record and record[STATE] == state and record[DELIVERY] == delivery and record[ATTEMPTS] == attempts
      and record[CRASHES] == crashes and record[INTERRUPTIONS] == interruptions
      and (dead and record[ENDED] or record[AT]) == at then
    if dead then forget(id, raw) else drop_live(record) end
    gone[#gone + 1] = id
  end
end
flush()
flush_counts()
return gone
