-- needs: basics, heads, records, chunks, writes, audit, counting, tokens, waking, lanes, flows, jobs, graph, looking
-- Close, cancel or retry a flow, or take the next step of what a look has left.  Answers whether that was done, whether a step
-- is left, and how many jobs its last retry has replayed; or -1: no script wrote this flow.
local now, id, verb, reason, entries = instant(A[1]), A[2], A[3], A[4], A[5]

even_if_full()
local flow = flows.read(id)
if flow == false then return {-1, 0, 0} end
if not flow then return {0, 0, 0} end
local state, names = flow.state, {}
for _, node in ipairs(flow.nodes) do names[node.name] = node.state ~= NODE.COMPLETED or nil end

local verbs = {}

function verbs.close()
  if state.closed then return false end
  state.closed = true
end

function verbs.cancel()
  if state.over_at > 0 then return false end
  state.closed, flow.cancelled = true, flow.cancelled or reason
  hash(flow.key, 'cancelled', flow.cancelled)
  for _, node in ipairs(flow.nodes) do
    if node.todo < TODO.REVIVE then node.todo, node.cursor = TODO.SWEEP, '' end
  end
end

local function is_completed()
  for _, node in ipairs(flow.nodes) do
    if node.state == NODE.FAILED or node.state == NODE.PASSED_OVER then return false end
  end
  return state.over_at > 0
end

function verbs.retry()
  hash(flow.key, 'retried', 0)
  flows.begin_anew(flow, names, function(node)
    return node.state == NODE.SKIPPED and TODO.REVIVE_BEHIND or TODO.REVIVE
  end, now)
end

function verbs.step() return state.unswept end

is_lenient = true
if verb == 'retry' and is_completed() then return {1, 0, 0} end
if verbs[verb]() == false then return {0, 0, tonumber(redis.call('HGET', P .. flow.key, 'retried') or 0) or 0} end
if verb ~= 'retry' then flows.look_at(flow, now) end
audit.store(entries, {})
flush()
flush_counts()
wake()
return {1, state.unswept and 1 or 0, tonumber(redis.call('HGET', P .. flow.key, 'retried') or 0) or 0}
