-- The walk over the lanes of queues that a claim makes: `onward/flow/walk.py`, with what it needs of `room.py` and `tokens.py`,
-- repeated here so that a claim is one exchange.  A test compares both.  All of it is made only when a claim walks.

local function new_walk(now, given)
  local PLAIN, FIRST, LAST = '', '', '\244\143\191\191'  -- no text sorts behind it
  local MOST_BOOKED, MOST_LANES, MORE_LANES, DRAWN_FROM, HORIZON = 200, 164, 64, 32, 900000000
  local released, limit, take = given.released, given.limit, given.take
  local begins = min(limit, given.begins or limit)
  local jumps = given.most_lanes or min(limit + MORE_LANES, MOST_LANES)
  local walk = {picks = 0, booked = {}, more = false, awaits_slots = false, opens_at = nil, ended = false}
  local cursors = {groups = {}, lanes = {}, circles = {}}
  walk.cursors = cursors

  -- By bytes: the `<` of Lua goes by the server's locale.
  local function precedes(one, other)
    for at = 1, min(#one, #other) do
      local left, right = byte(one, at), byte(other, at)
      if left ~= right then return left < right end
    end
    return #one < #other
  end

  -- What sorts before and behind all lanes of a group: a slash stands between `.` and `0`.
  local function ahead(group) return sub(group, 1, -2) .. '.' .. LAST end
  local function behind(group) return sub(group, 1, -2) .. '0' end

  local function stop() walk.more, walk.ended = true, true end

  -- What is stored.

  -- Members sort by their bytes only where all scores are equal.  Fails before anything is written, as with a wrong type.
  local function check_order(key)
    if redis.call('ZCOUNT', P .. key, 0, 0) ~= redis.call('ZCARD', P .. key) then error('DAMAGED ' .. key) end
  end

  local function rank_after(queue, rank)
    local above, behind = rank and '(' .. rank or '-inf', rank and '[' .. string.char(rank + 102) or '-'
    local ready = redis.call('ZRANGEBYSCORE', P .. 'ready:' .. queue, above, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    local first = redis.call('ZRANGEBYLEX', P .. 'lanes:' .. queue, behind, '+', 'LIMIT', 0, 1)[1]
    local plain, laned = ready and tonumber(ready), first and byte(first) - 101
    return plain and laned and min(plain, laned) or plain or laned
  end

  -- The first lane behind `after` and not behind `last`; false: there is none.
  local function lane_after(queue, rank, after, last)
    local at = string.char(rank + 101)
    local found = redis.call('ZRANGEBYLEX', P .. 'lanes:' .. queue, '[' .. at .. after .. '\1', '(' .. at .. last .. '\1',
      'LIMIT', 0, 1)[1]
    return found and string.match(found, '^.([^%z]*)') or false
  end

  -- The jobs of a lane, as they stand in line; those that cannot be claimed are left out.  And how many places that were.
  local function heads(queue, rank, lane, skip, count)
    local page, ids, found, from
    if lane == PLAIN then
      page = redis.call('ZRANGEBYSCORE', P .. 'ready:' .. queue, rank, rank, 'LIMIT', skip, count)
      from = 9
    else
      local begin = lanes.prefix(rank, lane)
      page = redis.call('ZRANGEBYLEX', P .. 'lanes:' .. queue, '[' .. begin, '(' .. sub(begin, 1, -2) .. '\1', 'LIMIT', skip,
        count)
      from = #begin + 9
    end
    ids, found = {}, {}
    for at, member in ipairs(page) do ids[at] = sub(member, from) end
    load(ids)
    for at, id in ipairs(ids) do
      local record = named(id)
      if record and (record[STATE] ~= AVAILABLE or (is(record, HAS_LANE) and fixed(record)[FIELD.LANE] or PLAIN) ~= lane) then
        damaged[#damaged + 1] = id
      elseif record and not released[id] and not (is(record, EXPIRES) and fixed(record)[FIELD.EXPIRES_AT] <= now) then
        found[#found + 1] = {record = record, member = page[at]}
      end
    end
    return found, #page
  end

  local function cost_of(record) return is(record, HAS_LANE) and fixed(record)[FIELD.COST] or 1 end

  local NONE, known = {}, {}

  local function bounds(kind, name)
    local field = kind .. ':' .. name
    if not known[field] then
      local raw = redis.call('HGET', P .. 'limits', field)
      known[field] = raw and limits.bounds(raw) or NONE
    end
    return known[field]
  end

  local function running(queue, lane, since)
    if lane ~= '' then
      return redis.call('ZLEXCOUNT', P .. 'running', '[' .. lane .. '\0' .. due(since), '(' .. lane .. '\1')
    end
    local stored = redis.call('HGET', P .. 'counts:' .. queue, EXECUTING) or '0'
    if not is_count(stored) then error('DAMAGED counts:' .. queue) end
    local counted = tonumber(stored)
    return counted + (changes[queue] and changes[queue][EXECUTING] or 0)
  end

  -- Rooms: what a scope has left during this claim.

  local rooms = {}

  -- False: nothing bounds it.
  local function room(queue, lane, kind, name)
    local field = queue .. '\n' .. lane
    if rooms[field] ~= nil then return rooms[field] end
    local bound, gate = bounds(kind, name), limits.gate(field)
    local is_shut = gate.shut_until > now
    local probe = not is_shut and now < gate.shut_until + gate.shut_for and gate.shut_for or 0
    if bound == NONE and not is_shut and probe == 0 then
      rooms[field] = false
      return false
    end
    local slots = bound.running and bound.running - running(queue, lane, 0)
    if probe > 0 then slots = min(1 - running(queue, lane, gate.shut_until), slots or 1) end
    rooms[field] = {
      interval = bound.interval, burst = bound.burst, gate = gate, slots = slots, probe = probe,
      shut_until = is_shut and gate.shut_until or 0, is_limited = bound ~= NONE or probe > 0,
      -- A clock that was set back: written even if nothing starts, or the bucket would stand still until it has caught up.
      charged = bound.interval and limits.is_set_back(gate, now),
    }
    return rooms[field]
  end

  local function queue_room(queue) return room(queue, '', 'queue', queue) end

  local function job_room(group)
    return group ~= PLAIN and group ~= '/' and room('', group, 'job', sub(group, 1, -2))
  end

  local function lane_room(lane)
    if lane == PLAIN or lane == lanes.group(lane) then return false end
    return room('', lane, 'key', sub(lanes.group(lane), 1, -2))
  end

  local function full_at(own) return limits.full_at(own.gate, now) end

  local function is_open(own)
    if own.shut_until > 0 or (own.slots and own.slots <= 0) then return false end
    return not own.interval or own.burst > math.ceil((full_at(own) - now) / own.interval)
  end

  local function waits_for_others(own)
    return own.shut_until >= LAST_INSTANT or (own.slots and own.slots <= 0)
  end

  local function opens_at(own, tokens)
    local at = own.interval and math.max(now, full_at(own) - (own.burst - tokens) * own.interval) or now
    return math.max(at, own.shut_until)
  end

  local function charge(own, cost)
    if own.slots then own.slots = own.slots - 1 end
    if own.interval then
      own.gate.full_at, own.gate.written_at = full_at(own) + cost * own.interval, now
      own.charged = true
    end
  end

  -- Remember when a closed room opens.
  local function closed(own)
    if waits_for_others(own) then return end
    local at = opens_at(own, 1)
    if not walk.opens_at or at < walk.opens_at then walk.opens_at = at end
  end

  -- Whether a start of this group takes what others could use: then no more are claimed than can begin.
  local function is_limited(queue, group)
    local in_queue, of_job = queue_room(queue), job_room(group)
    return (in_queue and in_queue.is_limited) or (of_job and of_job.is_limited)
      or bounds('key', sub(group, 1, -2)) ~= NONE
  end

  local function group_is_open(queue, group)
    local in_queue, of_job, all_open = queue_room(queue), job_room(group), true
    if in_queue and not is_open(in_queue) then
      closed(in_queue)
      all_open = false
    end
    if of_job and not is_open(of_job) then
      closed(of_job)
      all_open = false
    end
    if not all_open or begins > 0 or not is_limited(queue, group) then return all_open end
    walk.awaits_slots = true
    return false
  end

  -- The first jobs of a lane that its own rate or gate has closed, each for its own token.
  local function book(queue, rank, lane, own)
    if waits_for_others(own) or not given.is_bounded then return end
    if #walk.booked >= MOST_BOOKED then return stop() end
    local tokens, seen, left = 1, 0, MOST_BOOKED - #walk.booked
    while seen < left do
      local size = min(left - seen, 25)
      local found, places = heads(queue, rank, lane, seen, size)
      for _, each in ipairs(found) do
        local at = opens_at(own, tokens)
        if at > now + HORIZON then return end
        walk.booked[#walk.booked + 1] = {each.record, at}
        tokens = tokens + cost_of(each.record)
      end
      if places < size then return end
      seen = seen + places
    end
  end

  -- Cursors: where this process's walk goes on.

  for _, each in ipairs(given.cursors and given.cursors[1] or {}) do cursors.groups[each[1]] = each[2] end
  for _, each in ipairs(given.cursors and given.cursors[2] or {}) do cursors.lanes[each[1] .. '\n' .. each[2]] = each end
  for _, each in ipairs(given.cursors and given.cursors[3] or {}) do
    cursors.circles[each[1] .. '\n' .. each[2] .. '\n' .. each[3]] = each
  end

  check_order('running')
  math.randomseed(given.seed)
  local random = math.random

  -- Every lane is as likely to be behind the first place, whatever the gaps between their digits.
  local function drawn(queue, rank, group)
    local found, at = {}, group .. string.format('%04x', random(0, 65535))
    local first, last = ahead(group), group .. LAST
    while #found < DRAWN_FROM do
      local lane = lane_after(queue, rank, at, last) or lane_after(queue, rank, first, last)
      if not lane or lane == found[1] then break end
      found[#found + 1] = lane
      at = lane
    end
    return #found > 0 and found[random(1, #found)] or at
  end

  -- The groups that have jobs, in the order of their turns.
  local function in_turn(queue, rank)
    local names = {}
    if #redis.call('ZRANGEBYSCORE', P .. 'ready:' .. queue, rank, rank, 'LIMIT', 0, 1) > 0 then names[1] = PLAIN end
    local lane = lane_after(queue, rank, FIRST, LAST)
    while lane do
      names[#names + 1] = lanes.group(lane)
      lane = lane_after(queue, rank, behind(names[#names]), LAST)
    end
    local last, first = cursors.groups[queue], 1
    if not last then
      first = #names > 0 and random(1, #names) or 1
    else
      for place, name in ipairs(names) do
        if precedes(last, name) then
          first = place
          break
        end
      end
    end
    local groups = {}
    for turn = 1, #names do
      local name = names[(first + turn - 2) % #names + 1]
      groups[turn] = {name = name, queue = queue, rank = rank, lines = {}, first = 1, last = 0}
    end
    return groups
  end

  -- The stretches of a circle: from behind the cursor up to the end, then from the start up to where it began.
  local function begin_circle(group)
    local place = group.queue .. '\n' .. group.rank .. '\n' .. group.name
    local cursor = cursors.lanes[group.queue .. '\n' .. group.name]
    cursor = cursor and cursor[3] or drawn(group.queue, group.rank, group.name)
    local begun = cursors.circles[place]
    cursors.circles[place] = nil
    group.begun = begun and begun[4] or cursor
    local last, first = group.name .. LAST, ahead(group.name)
    if precedes(cursor, group.begun) then
      group.parts = {{precedes(cursor, first) and first or cursor, group.begun}}
    else
      group.parts = {{precedes(cursor, first) and first or cursor, last}, {first, group.begun}}
    end
  end

  -- The next lane of the circle; nil after the last, and where the walk must stop.
  local function next_lane(group)
    if not group.parts then begin_circle(group) end
    while group.parts[1] do
      local part = group.parts[1]
      local lane = lane_after(group.queue, group.rank, part[1], part[2])
      if lane then
        jumps = jumps - 1
        if jumps < 0 then stop() end
        if not walk.ended then
          part[1] = lane
          return lane
        end
        cursors.groups[group.queue] = group.name
        cursors.lanes[group.queue .. '\n' .. group.name] = {group.queue, group.name, part[1]}
        if not group.found then
          local place = group.queue .. '\n' .. group.rank .. '\n' .. group.name
          cursors.circles[place] = {group.queue, group.rank, group.name, group.begun}
        end
        group.parts = {}
        return nil
      end
      table.remove(group.parts, 1)
    end
  end

  local function new_line(lane) return {lane = lane, jobs = {}, first = 1, seen = 0, has_ended = false} end

  -- Lanes that were not met yet come first, then those that gave a job, by turns.
  local function next_line(group)
    if group.name == PLAIN then
      if not group.is_begun then
        group.is_begun = true
        return new_line(PLAIN)
      end
    else
      local lane = next_lane(group)
      while lane do
        local own = lane_room(lane)
        if not own or is_open(own) then return new_line(lane) end
        closed(own)
        book(group.queue, group.rank, lane, own)
        lane = next_lane(group)
      end
    end
    local line = group.lines[group.first]
    if not line or walk.ended then return nil end
    group.lines[group.first], group.first = nil, group.first + 1
    return line
  end

  -- Looks at about as many jobs of a lane as it will give.
  local function next_job(group, line)
    local share = math.floor((limit - walk.picks) / (group.last - group.first + 2))
    share = min(math.max(1, share), CHUNK)
    while not line.jobs[line.first] and not line.has_ended do
      local found, places = heads(group.queue, group.rank, line.lane, line.seen, share)
      line.seen, line.has_ended, line.jobs, line.first = line.seen + places, places < share, found, 1
    end
    local job = line.jobs[line.first]
    line.first = line.first + 1
    return job
  end

  local function next_of(group)
    while group_is_open(group.queue, group.name) do
      local line = next_line(group)
      if not line then return nil end
      local own = lane_room(line.lane)
      local job = (not own or is_open(own)) and next_job(group, line)
      if job then
        group.last = group.last + 1
        group.lines[group.last], group.found = line, true
        return job, line.lane
      end
    end
  end

  local function pick(group, job, lane)
    local cost, of_job = cost_of(job.record), job_room(group.name)
    local probe = of_job and of_job.probe or 0
    for _, own in ipairs({queue_room(group.queue) or NONE, of_job or NONE, lane_room(lane) or NONE}) do
      if own ~= NONE then charge(own, cost) end
    end
    if is_limited(group.queue, group.name) then begins = begins - 1 end
    walk.picks = walk.picks + 1
    take(group.queue, job.record, job.member, lane, probe)
    cursors.groups[group.queue] = group.name
    if lane ~= PLAIN then cursors.lanes[group.queue .. '\n' .. group.name] = {group.queue, group.name, lane} end
  end

  local function priority(queue, rank, most)
    local groups = in_turn(queue, rank)
    local first, last = 1, #groups
    while first <= last and not walk.ended and walk.picks < most do
      local group = groups[first]
      groups[first], first = nil, first + 1
      local job, lane = next_of(group)
      if job then
        local is_suspect = job.record[CRASHES] > 0
        if is_suspect and walk.picks > 0 then return stop() end
        pick(group, job, lane)
        last = last + 1
        groups[last] = group
        if is_suspect then stop() end  -- alone
      end
    end
  end

  -- Take jobs of a queue.  Whether all that can start there now was taken.
  function walk.through(queue, at_most)
    check_order('lanes:' .. queue)
    local most, rank = min(limit, walk.picks + at_most), nil
    while not walk.ended and walk.picks < most do
      rank = rank_after(queue, rank)
      if not rank then return true end
      local own = queue_room(queue)
      if own and not is_open(own) then
        closed(own)
        return true
      end
      priority(queue, rank, most)
    end
    return false
  end

  -- Charge the tokens, and schedule what was booked for them.
  function walk.write()
    for field, own in pairs(rooms) do
      if own and own.charged then
        own.gate.full_at, own.gate.written_at = full_at(own), now
        limits.set_gate(field, own.gate)
      end
    end
    for _, each in ipairs(walk.booked) do
      local record, at = unpack(each)
      place(record, SCHEDULED, now, {[AT] = at, [FLAGS] = record[FLAGS] + IS_BOOKED})
    end
  end

  -- What the caller learns, besides the leases, and where its next walk begins.
  function walk.answer(laned)
    local groups, places, circles = {}, {}, {}
    for queue, group in pairs(cursors.groups) do groups[#groups + 1] = {queue, group} end
    for _, place in pairs(cursors.lanes) do places[#places + 1] = place end
    for _, circle in pairs(cursors.circles) do circles[#circles + 1] = circle end
    return cmsgpack.pack({walk.more, walk.awaits_slots, laned, {groups, places, circles}})
  end

  return walk
end
