-- Ending leases: `fate` and `judge` of onward/job/settlement.py, repeated here so that a turn is one exchange.

-- Places in a settlement.
local S = {
  ID = 1, TOKEN = 2, OWN = 3, MOVE = 4, RAN = 5, RESULT = 6, DROP = 7, REASON = 8, DELAY = 9, WAITS = 10, FAILURE = 11,
  DURATION = 12, SPENT = 13, LETTER = 14, AWAITS = 15, NOTES = 16, GATE = 17, BY = 18,
}

local TARGETS = {
  ack = COMPLETED, skip = COMPLETED, nack = RETRYABLE, abandon = DISCARDED, snooze = SCHEDULED, park = SCHEDULED,
  cancelled = CANCELLED, release = AVAILABLE, crashed = RETRYABLE,
}
local ALREADY, LOST, GONE = 10, 20, 21  -- an answer is the state gone to, ALREADY plus that state, or one of these

deaths.unexplained = {'Failure', 'no details were given', '', 'unexplained'}

local function note_run(record, move, to, failure, now, duration, by)
  hash('runs:' .. record.id, record[DELIVERY], cmsgpack.pack({
    record[DELIVERY], record[ATTEMPTS] + 1, move, to, now, duration, failure[1], failure[2], failure[3],
    record[OWNER] or '', failure[4], by or '',
  }))
end

-- The fingerprint of the newest record of a run.
function deaths.newest(id)
  local newest
  for _, token in ipairs(redis.call('HKEYS', P .. 'runs:' .. id)) do
    if not newest or (tonumber(token) or 0) > (tonumber(newest) or 0) then newest = token end
  end
  local run = newest and unpacked(redis.call('HGET', P .. 'runs:' .. id, newest))
  return type(run) == 'table' and type(run[11]) == 'string' and run[11]
end

local function crash(record, now, cause, by)
  record[CRASHES] = record[CRASHES] + 1
  local crashes, to = record[CRASHES], RETRYABLE
  if record[CANCEL_REASON] then
    to = CANCELLED
  elseif crashes >= fixed(record)[FIELD.MAX_CRASHES] then
    to = DISCARDED
  end
  note_run(record, 'crashed', to, {'Crash', cause, '', 'crashed'}, now, 0, by)
  if to == CANCELLED then
    finish(record, to, now, record[CANCEL_REASON])
  elseif to == DISCARDED then
    local reason = string.format('crashed %d %s: %s', crashes, crashes == 1 and 'time' or 'times', cause)
    finish(record, to, now, reason, nil, nil, nil, 'crashed')
  else
    local pause = crashes <= 1 and 0 or min(10 * 2 ^ min(crashes - 2, 10), 600) * 1000000
    place(record, to, now, {[AT] = now + pause})
  end
  return to
end

local function classify(settlement)
  local id, token, move = settlement[S.ID], settlement[S.TOKEN], settlement[S.MOVE]
  local run = hget('runs:' .. id, token)
  if run then
    local noted = unpacked(run)
    local to = type(noted) == 'table' and noted[3] == move and tonumber(noted[4])
    return to and is_within(to, SCHEDULED, CANCELLED) and ALREADY + to or LOST
  end
  local raw = finished_record(id)
  if not raw then return job(id) and LOST or GONE end
  local record = taken_apart(id, raw, decode_finished)
  if not record or record[DELIVERY] ~= token then return LOST end
  local turned = record[STATE] == CANCELLED and move ~= 'ack'
  return (turned or record[STATE] == TARGETS[move]) and ALREADY + record[STATE] or LOST
end

-- Queues in which this script makes available what is due, and how many retries were made so at once: nothing reads their
-- records again for it.
local promotes, at_once = {}, 0

local function put_back(record, settlement, state, now)
  local move = settlement[S.MOVE]
  if move == 'release' then
    place(record, state, now, {[WAITS] = settlement[S.WAITS]})
    return
  end
  if settlement[S.SPENT] then record[SPENT] = settlement[S.SPENT] end
  local parked = nil
  if move == 'park' then parked = record[PARKED_SINCE] or now end
  unindex(record)
  count(record[QUEUE], record[STATE], -1)
  if state == RETRYABLE and settlement[S.DELAY] <= 0 and promotes[record[QUEUE]] and record[FLAGS] <= IS_SUSPECT then
    state, at_once = AVAILABLE, at_once + 1
  end
  record[STATE], record[OWNER], record[PARKED_SINCE] = state, nil, parked
  record[WAITS], record[AT] = settlement[S.WAITS], now + settlement[S.DELAY]
  index(record, now)
  count(record[QUEUE], state, 1)
  wait_for_signal(record, state == SCHEDULED and settlement[S.AWAITS])
  save(record)
  if state == SCHEDULED then write_snoozed(record, settlement[S.NOTES] or {}, now) end
end

-- The fence and the write are one: the server runs no other script meanwhile.
local function settle_one(settlement, owner, now)
  local record, move = job(settlement[S.ID]), settlement[S.MOVE]
  if not record or not settlement[S.OWN] or record[STATE] ~= EXECUTING
      or record[DELIVERY] ~= settlement[S.TOKEN] or record[OWNER] ~= owner then
    return classify(settlement)
  end
  if move == 'crashed' then return crash(record, now, settlement[S.REASON], settlement[S.BY]), record end
  local turned = record[CANCEL_REASON] and move ~= 'ack'
  local state = turned and CANCELLED or TARGETS[move]
  if settlement[S.FAILURE] or move == 'nack' then
    note_run(record, move, state, settlement[S.FAILURE] or deaths.unexplained, now, settlement[S.DURATION], settlement[S.BY])
  end
  if move == 'release' then record[INTERRUPTIONS] = record[INTERRUPTIONS] + 1 end
  if state >= COMPLETED then
    local reason = settlement[S.REASON]
    if state ~= TARGETS[move] then reason = record[CANCEL_REASON] end
    local result = settlement[S.RESULT] and ARGV[settlement[S.RESULT]]
    local tomb = settlement[S.DROP] and not (is(record, IS_MEMBER) and flows.knows(record))
    local died
    if state == DISCARDED then
      local failure = settlement[S.FAILURE]
      died = failure and failure[4] or not failure and deaths.newest(record.id) or ''
      died = died ~= '' and died or deaths.unexplained[4]
    end
    finish(record, state, now, reason, result, tomb, settlement[S.RAN], died)
  else
    if settlement[S.RAN] then record[ATTEMPTS] = record[ATTEMPTS] + 1 end
    put_back(record, settlement, state, now)
  end
  return state, record
end
