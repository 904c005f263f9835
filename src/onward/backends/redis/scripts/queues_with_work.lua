-- needs: basics
-- The queues that have work now, among so many in which jobs live, by name; and where the walk goes on.
local now, prefix, after, limit = instant(A[1]), A[2], A[3], A[4]

local from = after > prefix and '(' .. after or '[' .. prefix
local walked = redis.call('ZRANGEBYLEX', P .. 'queues', from, '(' .. prefix .. '\127', 'LIMIT', 0, limit)
local found = {}
for _, queue in ipairs(walked) do
  local has_work = redis.call('EXISTS', P .. 'ready:' .. queue) == 1
  if not has_work then
    local first = redis.call('ZRANGE', P .. 'later:' .. queue, 0, 0, 'WITHSCORES')[2]
    has_work = first and tonumber(first) <= now
  end
  if has_work and redis.call('SISMEMBER', P .. 'paused', queue) == 0 then found[#found + 1] = queue end
end
return {found, #walked == limit and walked[#walked] or false}
