-- needs: basics, heads, records, chunks, writes, counting, tokens, waking, lanes, flows, jobs, limits
-- Every limit: its name, its row, how many leases it has, and its gate; keys have a number each, and are not counted.
local now, found = instant(A[1]), {}

local fields = redis.call('HGETALL', P .. 'limits')
for at = 1, #fields, 2 do
  local field, running, scope = fields[at], 0, nil
  local kind, name = string.match(field, '^(%l+):(.*)$')
  if kind == 'queue' then
    scope = name .. '\n'
    running = tonumber(redis.call('HGET', P .. 'counts:' .. name, EXECUTING) or 0) or 0
  elseif kind == 'job' then
    scope = '\n' .. name .. '/'
    running = redis.call('ZLEXCOUNT', P .. 'running', '[' .. name .. '/\0', '(' .. name .. '/\1')
  end
  found[#found + 1] = {field, fields[at + 1], running, scope and redis.call('HGET', P .. 'gates', scope) or false}
end
return {now, found}
