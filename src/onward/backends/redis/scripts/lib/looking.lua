-- The look at flows in which jobs have ended.  It comes last, when all else is written.  A script moves at most
-- `flows.room` jobs of flows; what is left is noted in the node's row, and the next look at this flow goes on there.

do
  local WHENS = {succeeded = true, failed = true, finished = true}

  -- The flow as it is stored, with its nodes in their order; nil if there is none, false if no script wrote it.
  function flows.read(id)
    local key = 'flow:' .. id
    local about = hget(key, 'about')
    if not about then return nil end
    local flow = {id = id, key = key, state = flows.state(key), cancelled = hget(key, 'cancelled'), nodes = {}, by_name = {}}
    local function parse()
      local name, stop_on_failure, nodes = unpack(cmsgpack.unpack(about))
      assert(flow.state and type(name) == 'string', 'a flow is damaged')
      flow.name, flow.stop_on_failure = name, stop_on_failure
      local fields = {}
      for place, node in ipairs(nodes) do fields[place] = '=' .. node[1] end
      local rows, alike = hmget(key, fields, {}), {}  -- of thousands of nodes, most have the same row
      for place, node in ipairs(nodes) do
        local raw = rows[fields[place]]
        local row = alike[raw] or assert(flows.row(raw), 'a node is damaged')
        alike[raw] = row
        assert(WHENS[node[3]], 'a node is damaged')
        for _, before in ipairs(node[2]) do assert(is_within(before, 1, place - 1), 'a node is damaged') end
        flow.nodes[place] = {
          name = node[1], after = node[2], when = node[3], flow = id, before = row,
          state = row.state, failed = row.failed, todo = row.todo, cursor = row.cursor,
        }
        flow.by_name[node[1]] = place
      end
    end
    return pcall(parse) and flow
  end

  -- Where the jobs of a node are named.
  function flows.place_of(node) return node.flow .. '\n' .. node.name end

  local function exists(...) return redis.call('EXISTS', ...) > 0 end

  local function has_failed(node)
    local place = flows.place_of(node)
    return exists(P .. 'finished:' .. DISCARDED .. ':' .. place, P .. 'finished:' .. CANCELLED .. ':' .. place)
  end

  -- Whether all jobs of a node are to end.
  local function ends(flow, node)
    return flow.cancelled or (flow.state.stopped and node.when == 'succeeded')
  end

  -- Apply the rules once.  Whether a node has changed.
  local function advance(flow)
    if flow.stop_on_failure and not flow.state.stopped then
      for _, node in ipairs(flow.nodes) do flow.state.stopped = flow.state.stopped or node.failed end
      for _, node in ipairs(flow.state.stopped and flow.nodes or {}) do
        if node.when == 'succeeded' and node.todo < TODO.REVIVE then node.todo, node.cursor = TODO.SWEEP, '' end
      end
    end
    local function has_live(node)
      if node.todo >= TODO.REVIVE or exists(P .. 'members:' .. flows.place_of(node)) then return true end
      node.failed = node.failed or has_failed(node)  -- a script that was broken off did not note it
      return false
    end
    local changed = graph.advance(flow.nodes, has_live, flow.state.closed)
    for place, state in pairs(changed) do
      local node = flow.nodes[place]
      node.state = state
      if node.todo < TODO.REVIVE then node.todo, node.cursor = TODO.SWEEP, '' end
    end
    return next(changed) ~= nil
  end

  -- Another life for a finished job; a member waits in its node.
  function flows.revive(record, raw, now)
    local id = record.id
    forget_finished(id, raw)
    hash('progress', id, false)
    if is(record, IS_UNIQUE) then hash('unique', fixed(record)[FIELD.UNIQUE_KEY], id) end
    record[AT], record[STATE] = now, AVAILABLE
    record[FLAGS] = band(record[FLAGS], bit.bnot(AWAITS_NODE + IS_DELAYED))
    if is(record, IS_MEMBER) and flows.knows(record) then flows.wait(record, 0, true) end
    record[ATTEMPTS], record[CRASHES], record[INTERRUPTIONS], record[WAITS] = 0, 0, 0, 0
    record[STARTED], record[PARKED_SINCE], record[OWNER] = nil, nil, nil
    record[SPENT], record[ENDED], record[REASON], record.died = nil, nil, nil, nil
    jobs[id] = record
    index(record, now)
    count(record[QUEUE], record[STATE], 1)
    zset('live', id, 0)
    save(record)
  end

  -- Replay what failed in a node and may still run.
  local function revive_some(flow, node, now)
    local place = flows.place_of(node)
    local page = flows.room > 0 and in_order(
      {'finished:' .. DISCARDED .. ':' .. place, 'finished:' .. CANCELLED .. ':' .. place},
      node.cursor ~= '' and node.cursor, flows.room) or {}
    local revived = 0
    for _, id in ipairs(page) do
      local raw = finished_record(id)
      local record = raw and not job(id) and taken_apart(id, raw, decode_finished)
      local holder = record and is(record, IS_UNIQUE) and hget('unique', fixed(record)[FIELD.UNIQUE_KEY])
      if record and not (is(record, EXPIRES) and fixed(record)[FIELD.EXPIRES_AT] <= now) and not (holder and job(holder)) then
        flows.revive(record, raw, now)
        revived = revived + 1
      end
    end
    if node.todo == TODO.REVIVE then
      hash(flow.key, 'retried', (tonumber(hget(flow.key, 'retried') or 0) or 0) + revived)
    end
    local is_done = #page < flows.room
    flows.room = flows.room - #page
    node.cursor = page[#page] or node.cursor
    if is_done then
      flush()
      node.todo, node.cursor, node.failed = TODO.SWEEP, '', has_failed(node)
    end
    return is_done
  end

  -- Make jobs of a node due, or cancel them, as its state says.  Whether the rules may say more now.
  local function sweep(flow, node, now)
    if node.todo >= TODO.REVIVE then return revive_some(flow, node, now) end
    local all_end = ends(flow, node)
    if node.state == NODE.WAITING and not all_end then
      node.todo = 0
      return false
    end
    if flows.room <= 0 then return false end
    local page = redis.call('ZRANGEBYLEX', P .. (all_end and 'members:' or 'waiting:') .. flows.place_of(node),
      all_end and node.cursor ~= '' and '(' .. node.cursor or '-', '+', 'LIMIT', 0, flows.room)
    node.todo = #page < flows.room and 0 or TODO.SWEEP
    node.cursor = node.todo > 0 and page[#page] or ''
    flows.room = flows.room - #page
    local reason = all_end and (flow.cancelled or 'its flow stopped: a job failed') or graph.why_not_needed(flow.nodes, node)
    local gone = 0
    load(page)
    for _, id in ipairs(page) do
      local record = job(id)
      if record and record[STATE] == EXECUTING then
        if all_end then ask_to_cancel(record, reason) end
      elseif record and node.state == NODE.OPEN and not all_end then
        local at = is(record, IS_DELAYED) and now + record[AT] or math.max(now, record[AT])
        place(record, at <= now and AVAILABLE or SCHEDULED, now, {[AT] = at})
      elseif record then
        finish(record, CANCELLED, now, reason)
        gone = gone + 1
      end
    end
    if gone > 0 and all_end and node.state <= NODE.OPEN then node.failed = true end
    return gone > 0
  end

  -- Writes what has changed.  Whether anything has, but for how far a sweep came.
  local function write(flow, before, now)
    local state, changed, all_over = flow.state, before ~= flow.state.stopped, true
    state.unswept = false
    for _, node in ipairs(flow.nodes) do
      state.unswept = state.unswept or node.todo > 0
      all_over = all_over and node.state >= NODE.COMPLETED
      local row = node.before
      local has_moved = node.state ~= row.state or node.failed ~= row.failed
      if has_moved or node.todo ~= row.todo or node.cursor ~= row.cursor then
        hash(flow.key, '=' .. node.name, flows.packed(node))
      end
      changed = changed or has_moved
    end
    if state.over_at == 0 and state.closed and all_over and not state.unswept then
      state.over_at, changed = now, true
      zset('flows:running', flow.id, false)
    end
    flows.set_state(flow.key, state)
    flush()
    return changed
  end

  -- Look at a flow: open what may open, cancel what is not needed, note what is over.  Whether anything changed.
  function flows.look_at(flow, now)
    local stopped, goes_on = flow.state.stopped, true
    flows.looks_at = flow.id
    while goes_on do
      goes_on = advance(flow)
      for _, node in ipairs(flow.nodes) do
        if node.todo > 0 then goes_on = sweep(flow, node, now) or goes_on end
      end
      flush()
    end
    flows.looks_at = nil
    return write(flow, stopped, now)
  end

  -- Whether the ends of jobs may change a flow: one was the last of its node, or the first that failed, or a step is left.
  local function may_change(id, nodes)
    local key = 'flow:' .. id
    local state = flows.state(key)
    if not state then return false end
    if state.unswept or flows.forced[id] then return true end
    for name, failed in pairs(nodes) do
      local row = flows.row(hget(key, '=' .. name))
      if row and ((failed and not row.failed and row.state <= NODE.OPEN) or not exists(P .. 'members:' .. id .. '\n' .. name)) then
        return true
      end
    end
    return false
  end

  -- Look at every flow that this script has touched.
  function flows.look(now)
    if not next(flows.touched) and not next(flows.forced) then return end
    flush()
    is_lenient = true  -- what ended has ended: a damaged record beside it is set aside later
    local ids = {}
    for id in pairs(flows.forced) do flows.touched[id] = flows.touched[id] or {} end
    for id in pairs(flows.touched) do ids[#ids + 1] = id end
    table.sort(ids)
    for _, id in ipairs(ids) do
      local flow = may_change(id, flows.touched[id]) and flows.read(id)
      if flow then
        for name, failed in pairs(flows.touched[id]) do
          local node = flow.nodes[flow.by_name[name]]
          if node and failed and node.state <= NODE.OPEN then node.failed = true end
        end
        flows.look_at(flow, now)
      end
    end
    flows.touched, flows.forced = {}, {}
  end

  -- The same in a script that was broken off: by what it has written, and not by what it wanted to.
  function flows.look_all_the_same(now)
    forget_unwritten()
    jobs, raws, flows.forced = {}, {}, {}
    for id, nodes in pairs(flows.touched) do
      for name in pairs(nodes) do nodes[name] = has_failed({flow = id, name = name}) end
    end
    flows.look(now)
  end

  -- Let nodes, by name, of which jobs are replayed, and those behind them, go by the rules anew, and look.  `todo`: what is
  -- left to do with the jobs of a named node, by its state.
  function flows.begin_anew(flow, names, todo, now)
    local chosen = {}
    for name in pairs(names) do
      if flow.by_name[name] then chosen[flow.by_name[name]] = true end
    end
    for place, what in pairs(graph.reset(flow.nodes, chosen)) do
      local node = flow.nodes[place]
      node.todo, node.cursor = what == 'behind' and TODO.REVIVE_BEHIND or todo(node), ''
      node.failed = node.todo < TODO.REVIVE and has_failed(node)
      if what ~= 'open' then node.state = NODE.WAITING end
    end
    flow.state.stopped, flow.state.over_at, flow.cancelled = false, 0, false
    hash(flow.key, 'cancelled', false)
    zset('flows:running', flow.id, 0)
    is_lenient = true
    flows.look_at(flow, now)
  end
end
