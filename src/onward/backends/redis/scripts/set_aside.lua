-- needs: basics, heads, records, chunks, writes, counting, tokens, waking, lanes, flows, jobs, graph, looking
-- Make dead letters of jobs whose records are damaged or missing, if they still are as they were seen.  What was found under
-- such an id is kept as it was.  Answers for each whether that was done.
local letters, now = A[1], instant(A[2])
is_lenient = true

-- Places in a letter; those of bytes say where they are among the arguments.
local L_NEW_ID, L_QUEUE, L_IS_MISSING, L_OLD_ID, L_HAS_DATA, L_INDEX, L_MEMBER = 1, 2, 3, 4, 5, 6, 7
local INDEXES = {'live', 'tombs', 'ended:5', 'ended:6', 'ended:7'}
local SETS = {leases = true, asked = true}

local function take_out(id)
  local record = job(id)
  if record then
    unindex(record)
    free_key(record)
    count(record[QUEUE], record[STATE], -1)
    jobs[id] = false
  end
  for _, name in ipairs(INDEXES) do zset(name, id, false) end
end

local function move(key, from, to)
  local value = from ~= to and hget(key, from)
  if value then
    hash(key, to, value)
    hash(key, from, false)
  end
end

local function set_aside(letter)
  local place = letter[L_OLD_ID]
  local old, seen, record, data = ARGV[place], ARGV[place + 1], ARGV[place + 2], ARGV[place + 3]
  local id, raw = letter[L_NEW_ID], redis.call('HGET', P .. 'jobs', old)
  if (raw or '') ~= seen or letter[L_IS_MISSING] == (raw and true or false) then return 0 end
  take_out(old)
  if letter[L_INDEX] then
    local name = ARGV[letter[L_INDEX]]
    local remove = SETS[string.match(name, '^[^:]*')] and set or zset
    remove(name, ARGV[letter[L_MEMBER]], false)
    flows.lose(name, ARGV[letter[L_MEMBER]])
  end
  if raw then hash('damaged', id, raw) end
  local older = redis.call('HGET', P .. 'older', old)
  if older then
    hash('damaged', id .. ':older', older)
    hash('older', old, false)
  end
  move('sealed', old, id)
  move('progress', old, id)
  move('results', old, id)
  if old ~= id then hash('jobs', old, false) end
  if not hget('sealed', id) or letter[L_HAS_DATA] then hash('sealed', id, data) end
  hash('jobs', id, record)
  zset('ended:' .. DISCARDED, id, 0)
  local now_dead = decode_finished(id, record)
  if now_dead.died then zset('deaths', deaths.member(now_dead), 0) end
  if is(now_dead, IS_MEMBER) then
    zset('members:' .. flows.place(now_dead), old, false)
    flows.lose('members:' .. flows.place(now_dead), old)
    zset(flows.finished(now_dead), id, 0)
  end
  count(letter[L_QUEUE], DISCARDED, 1)
  ended = ended + 1
  return 1
end

even_if_full()
local done = {}
for at, letter in ipairs(letters) do done[at] = set_aside(letter) end
flush()
flows.look(now)
flush_counts()
wake()
return done
