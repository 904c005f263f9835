-- The indexes of jobs that have a lane; `layout.py` describes their members.  `index` and `unindex` call them, and the claim.
-- In a table, which `waking.lua` makes: a script may have 200 local names.

-- What all lanes of a job begin with.
function lanes.group(lane) return string.match(lane, '^[^/]*/') end

-- How the members of a lane begin in `lanes:<queue>`.
function lanes.prefix(rank, lane) return string.char(rank + 101) .. lane .. '\0' end

-- False removes, as with `zset`.
function lanes.index(record, score)
  local member = lanes.prefix(record[RANK], fixed(record)[FIELD.LANE]) .. due(record[AT]) .. record.id
  zset('lanes:' .. record[QUEUE], member, score)
  to_mark[record[QUEUE]] = true
end

function lanes.count(record, score)
  local lane, rest = fixed(record)[FIELD.LANE], '\0' .. due(record[STARTED] or 0) .. record.id
  local group = lanes.group(lane)
  zset('running', lane .. rest, score)
  if group ~= lane and group ~= '/' then zset('running', group .. rest, score) end
  lanes.freed[group] = (lanes.freed[group] or 0) + (score and -1 or 1)
end

-- Scheduled for a token of its lane.
function lanes.book(record, score)
  zset('booked:' .. record[QUEUE], record.id, score)
  to_mark[record[QUEUE]] = true
end

function lanes.wakes(queue)
  if wakes[queue] ~= SOON then wakes[queue] = LANED end
end
