-- needs: basics, heads, records, chunks, writes, counting, tokens, waking, lanes, flows, jobs, graph, looking
-- A stretch of a walk over the flows that are not over: close those that were left open, and look at each.  Answers where the
-- walk goes on, or false; flows with what was wrong: `left open`, `overlooked` or `damaged`; flows of which a step is left; and
-- whether a set of members is not what the records say.  The stretch ends early when enough nodes and members were looked at;
-- of each flow some members are compared, of nodes from a place on that is another one each time.
local now, after, stretch, left_open, looked_at, most, from = instant(A[1]), A[2], A[3], A[4], A[5], A[6], A[7]
local spent = 0

-- Whether a set of members holds what no script leaves there.  Jobs leave it as they end: those that stay come first.
local function is_wrong(key, is_there, at_most)
  spent = spent + 1
  if redis.call('ZCOUNT', P .. key, 0, 0) ~= redis.call('ZCARD', P .. key) then return true end
  local ids = redis.call('ZRANGE', P .. key, 0, at_most - 1)
  spent = spent + #ids
  load(ids)
  for _, id in ipairs(ids) do
    local record = job(id)
    if not record or not is_there(record) then return true end
  end
  return false
end

local function has_wrong_members(flow)
  local enough = spent + looked_at
  for step = 0, #flow.nodes - 1 do
    local node = flow.nodes[(from + step) % #flow.nodes + 1]
    local place = flows.place_of(node)
    local function is_member(record) return is(record, IS_MEMBER) and flows.place(record) == place end
    local function waits(record) return is_member(record) and is(record, AWAITS_NODE) end
    if node.state == NODE.OPEN and is_wrong('members:' .. place, is_member, enough - spent) then return true end
    if spent < enough and node.state <= NODE.OPEN and is_wrong('waiting:' .. place, waits, enough - spent) then return true end
    if spent >= enough then break end
  end
  return false
end

even_if_full()
is_lenient = true
local found, unswept, wrong, last = {}, {}, false, nil
local ids = in_order({'flows:running'}, after, stretch)
for _, id in ipairs(ids) do
  if spent >= most then break end
  last = id
  local flow = flows.read(id)
  if not flow then
    found[#found + 1] = {id, '', 'damaged'}
  else
    spent = spent + #flow.nodes
    local was_unswept, is_left_open = flow.state.unswept, not flow.state.closed and flow.state.added_at + left_open <= now
    wrong = wrong or has_wrong_members(flow)
    flow.state.closed = flow.state.closed or is_left_open
    local changed = flows.look_at(flow, now)
    if is_left_open then
      found[#found + 1] = {id, flow.name, 'left open'}
    elseif changed and not was_unswept then
      found[#found + 1] = {id, flow.name, 'overlooked'}
    end
    if flow.state.unswept then unswept[#unswept + 1] = id end
  end
end
flush_counts()
wake()
return {(#ids == stretch or last ~= ids[#ids]) and last or false, found, unswept, (wrong or #damaged > 0) and 1 or 0}
