-- needs: basics
-- The queues that have work now, among so many in which jobs live, by name; and where the walk goes on.
local now, prefix, after, limit = instant(A[1]), A[2], A[3], A[4]

local from = after > prefix and '(' .. after or '[' .. prefix
local walked = redis.call('ZRANGEBYLEX', P .. 'queues', from, '(' .. prefix .. '\127', 'LIMIT', 0, limit)
local found = {}
for _, queue in ipairs(walked) do
  local seen = redis.call('SMISMEMBER', P .. 'paused', queue, '\n' .. queue)
  local has_work = redis.call('EXISTS', P .. 'ready:' .. queue) == 1
    or (seen[2] == 1 and redis.call('EXISTS', P .. 'lanes:' .. queue) == 1)
  for _, key in ipairs({'later:', seen[2] == 1 and 'booked:' or nil}) do
    local first = not has_work and redis.call('ZRANGE', P .. key .. queue, 0, 0, 'WITHSCORES')[2]
    has_work = has_work or (first and tonumber(first) <= now)
  end
  if has_work and seen[1] == 0 then found[#found + 1] = queue end
end
return {found, #walked == limit and walked[#walked] or false}
