-- needs: basics, heads, records, chunks, writes, counting, tokens, waking, lanes, flows
-- Put flows into the sets that name them.
for at = 2, #ARGV do
  local id = ARGV[at]
  redis.call('ZADD', P .. 'flows', 0, id)
  local state = flows.state('flow:' .. id)
  if not state or state.over_at == 0 then redis.call('ZADD', P .. 'flows:running', 0, id) end
end
