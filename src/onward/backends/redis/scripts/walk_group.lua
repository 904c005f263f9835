-- needs: basics, heads, records, chunks, writes, counting, tokens, waking, lanes, flows, jobs, showing
-- A stretch of a walk over a group of dead jobs by id: those that match, and the last id that was looked at, or false at the end.
local job_name, fingerprint, queue, flow, node = A[1], A[2], A[3], A[4], A[5]
local after, newest_first, limit, stretch = A[6], A[7], A[8], A[9]

local group = job_name .. '\0' .. fingerprint .. '\0'
local low, high = '[' .. group, '(' .. sub(group, 1, -2) .. '\1'
local members
if newest_first then
  members = redis.call('ZREVRANGEBYLEX', P .. 'deaths', after and '(' .. group .. after or high, low, 'LIMIT', 0, stretch)
else
  members = redis.call('ZRANGEBYLEX', P .. 'deaths', after and '(' .. group .. after or low, high, 'LIMIT', 0, stretch)
end

local found, last = {}, false
for _, member in ipairs(members) do
  local id = sub(member, #group + 1)
  local raw = finished_record(id)
  local record = raw and taken_apart(id, raw, decode_finished)
  if not record then error('DAMAGED records') end
  local carried = fixed(record)
  if (not queue or record[QUEUE] == queue) and (not flow or carried[FIELD.FLOW] == flow)
      and (not node or carried[FIELD.NODE] == node) then
    found[#found + 1] = shown(id, raw, false)
  end
  last = id
  if #found == limit then return {found, last, 0} end
end
return {found, #members == stretch and last or false, 0}
