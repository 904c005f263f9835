-- The rules of flows: `advance`, `reset` and what they need of onward/flow/graph.py, repeated here so that a turn is one
-- exchange.  A test compares both.  Nodes stand in their order, and name those that they come after by their places.

local graph = {}

do
  local function is_failure(state) return state == NODE.FAILED or state == NODE.PASSED_OVER end

  -- What becomes of a node that waits.
  local function opened(node, states)
    local all_over, one_failed, one_skipped = true, false, false
    for _, place in ipairs(node.after) do
      local state = states[place]
      all_over = all_over and state >= NODE.COMPLETED
      one_failed = one_failed or is_failure(state)
      one_skipped = one_skipped or state == NODE.SKIPPED
    end
    if node.when == 'succeeded' and one_failed then return NODE.PASSED_OVER end
    if not all_over then return NODE.WAITING end
    if node.when == 'finished' then return NODE.OPEN end
    if node.when == 'failed' then return one_failed and NODE.OPEN or NODE.SKIPPED end
    return one_skipped and NODE.SKIPPED or NODE.OPEN
  end

  -- The new states of the nodes that change, by place.
  function graph.advance(nodes, has_live, closed)
    local states, changed = {}, {}
    for place, node in ipairs(nodes) do
      local state = node.state
      if state == NODE.WAITING then state = opened(node, states) end
      if state == NODE.OPEN and closed and not has_live(node) then
        state = node.failed and NODE.FAILED or NODE.COMPLETED
      end
      states[place] = state
      if state ~= node.state then changed[place] = state end
    end
    return changed
  end

  -- Why a job is cancelled that waits in this node, which is over.
  function graph.why_not_needed(nodes, node)
    if node.state == NODE.SKIPPED then return 'not needed' end
    if node.state ~= NODE.PASSED_OVER then return 'node ' .. node.name .. ' was over when the job was added' end
    local culprit = node.name
    for _, place in ipairs(node.after) do
      if is_failure(nodes[place].state) then
        culprit = nodes[place].name
        break
      end
    end
    return 'node ' .. culprit .. ' failed'
  end

  -- What changes when jobs of these nodes, by place, are replayed: 'again' and 'behind' wait anew, 'open' stays so.
  function graph.reset(nodes, chosen)
    local following, changed = {}, {}
    for place, node in ipairs(nodes) do
      for _, before in ipairs(node.after) do
        following[place] = following[place] or chosen[before] or following[before]
      end
      if chosen[place] then
        changed[place] = node.state == NODE.OPEN and 'open' or 'again'
      elseif following[place] and (node.state == NODE.PASSED_OVER or node.state == NODE.SKIPPED) then
        changed[place] = 'behind'
      end
    end
    return changed
  end
end
