-- Flows and their members; `layout.py` describes the keys.  `add`, `index` and `unindex` call `flows.list`, `finish` and the
-- completer call `flows.ended`, `forget_finished` calls `flows.forget`: no other place says which jobs of a node live, or have
-- ended.
-- In a table: a script may have 200 local names.

local flows = {
  touched = {},  -- flows in which jobs have ended: nodes, and whether a job of each failed
  forced = {},  -- flows that are looked at whatever has ended
  forgotten = {},  -- flows of which finished jobs were removed
  standing = {},  -- what new members of a node meet, while this script adds them
  room = 1000,  -- how many jobs the looks of this script may still move
}

-- Where a member belongs.
function flows.place(record) return fixed(record)[FIELD.FLOW] .. '\n' .. fixed(record)[FIELD.NODE] end

-- False removes, as with `zset`.
function flows.list(place, id, waits, score)
  zset('members:' .. place, id, score)
  if waits then zset('waiting:' .. place, id, score) end
end

function flows.index(record, score) flows.list(flows.place(record), record.id, is(record, AWAITS_NODE), score) end

-- Where a member that has ended is named.
function flows.finished(record) return 'finished:' .. record[STATE] .. ':' .. flows.place(record) end

-- Note an end; its flow is looked at last, unless it was this look that ended the job.
function flows.ended(record, tomb)
  local flow, node = fixed(record)[FIELD.FLOW], fixed(record)[FIELD.NODE]
  if not tomb then zset(flows.finished(record), record.id, 0) end
  if flows.looks_at == flow then return end
  local nodes = flows.touched[flow] or {}
  flows.touched[flow] = nodes
  nodes[node] = nodes[node] or record[STATE] ~= COMPLETED
end

-- The end of a member that succeeded, as `flows.index` and `flows.ended` note it.
function flows.completed(id, flow, node)
  local place = flow .. '\n' .. node
  flows.list(place, id, false, false)
  zset('finished:' .. COMPLETED .. ':' .. place, id, 0)
  local nodes = flows.touched[flow] or {}
  flows.touched[flow] = nodes
  nodes[node] = nodes[node] or false
end

-- A live job that an index names, and that is not there any more, has failed.
function flows.lose(name, id)
  local flow, node = string.match(name, '^members:([^\n]*)\n(.*)$')
  if not flow then return end
  zset('waiting:' .. flow .. '\n' .. node, id, false)
  flows.touched[flow] = flows.touched[flow] or {}
  flows.touched[flow][node] = true
end

function flows.forget(record)
  zset(flows.finished(record), record.id, false)
  flows.forgotten[fixed(record)[FIELD.FLOW]] = true
end

-- The row of a flow: nil if there is none, false if no script wrote it.
function flows.state(key)
  local raw = hget(key, 'state')
  if not raw then return nil end
  if #raw ~= struct.size(FORMAT.flow) then return false end
  local closed, stopped, unswept, created_at, added_at, over_at = struct.unpack(FORMAT.flow, raw)
  if math.max(closed, stopped, unswept) > 1 or math.max(created_at, added_at, over_at) > LAST_INSTANT then return false end
  return {
    closed = closed == 1, stopped = stopped == 1, unswept = unswept == 1,
    created_at = created_at, added_at = added_at, over_at = over_at,
  }
end

function flows.set_state(key, state)
  hash(key, 'state', struct.pack(FORMAT.flow, state.closed and 1 or 0, state.stopped and 1 or 0, state.unswept and 1 or 0,
    state.created_at, state.added_at, state.over_at))
end

-- The row of a node, from its bytes: nil if there is none, false if no script wrote it.
function flows.row(raw)
  if not raw then return nil end
  if #raw < struct.size(FORMAT.node) then return false end
  local state, failed, todo, cursor_from = struct.unpack(FORMAT.node, raw)
  if not is_within(state, NODE.WAITING, NODE.SKIPPED) or failed > 1 or todo > TODO.REVIVE_BEHIND then return false end
  return {state = state, failed = failed == 1, todo = todo, cursor = sub(raw, cursor_from)}
end

function flows.packed(row)
  return struct.pack(FORMAT.node, row.state, row.failed and 1 or 0, row.todo) .. row.cursor
end

-- Whether the flow of a member is there, with its node: else it is a plain job.
function flows.knows(record)
  return hget('flow:' .. fixed(record)[FIELD.FLOW], '=' .. fixed(record)[FIELD.NODE]) and true or false
end

-- A member waits in its node, for as long as it says besides.
function flows.wait(record, at, is_delay)
  record[STATE], record[AT] = SCHEDULED, at
  record[FLAGS] = band(record[FLAGS], bit.bnot(IS_DELAYED + AWAITS_NODE)) + AWAITS_NODE + (is_delay and IS_DELAYED or 0)
end

-- Stores a flow; `about` is its packed plan.
function flows.store(flow, about, closed, now)
  local key, _, _, nodes = 'flow:' .. flow, unpack(cmsgpack.unpack(about))
  hash(key, 'about', about)
  flows.set_state(key, {closed = closed, created_at = now, added_at = now, over_at = 0})
  for _, node in ipairs(nodes) do
    local state = #node[2] == 0 and NODE.OPEN or NODE.WAITING
    hash(key, '=' .. node[1], flows.packed({state = state, failed = false, todo = 0, cursor = ''}))
  end
  zset('flows', flow, 0)
  zset('flows:running', flow, 0)
  flows.forced[flow] = true  -- a node without jobs is over as soon as it is open
end

-- A new member.  Whether it waits: its node is not open.  What is added to a flow that ends its jobs is cancelled by the look.
function flows.add(flow, node, now)
  local key = 'flow:' .. flow
  local total = hget(key, '+' .. node)
  local known = flows.standing[key .. '\n' .. node]
  if not known then
    local row, state = flows.row(hget(key, '=' .. node)), flows.state(key)
    known = {is_there = row ~= nil and state ~= nil, waits = not row or row.state ~= NODE.OPEN}
    flows.standing[key .. '\n' .. node] = known
    if row and state then  -- else the flow cannot go on
      state.added_at = now
      if row.state > NODE.OPEN or state.stopped or hget(key, 'cancelled') then
        state.unswept, flows.forced[flow] = true, true
        if row.todo <= TODO.SWEEP then row.todo, row.cursor = TODO.SWEEP, '' end
        hash(key, '=' .. node, flows.packed(row))
      end
      flows.set_state(key, state)
    end
  end
  if not known.is_there then return false end
  hash(key, '+' .. node, string.format('%d', (total and is_count(total) and tonumber(total) or 0) + 1))
  return known.waits
end
