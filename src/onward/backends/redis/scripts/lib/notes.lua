-- Notes: a hash for each job, by name: when it was written, 8 bytes, and the value.  `awaits` names the signal that a scheduled
-- job waits for; the job's record is flagged, so that no other job is looked up there.

local function note_key(id) return P .. 'notes:' .. id end

-- False: it waits for none.
local function wait_for_signal(record, signal)
  if signal then
    if not is(record, AWAITS) then record[FLAGS] = record[FLAGS] + AWAITS end
    hash('awaits', record.id, signal)
  elseif is(record, AWAITS) then
    record[FLAGS] = record[FLAGS] - AWAITS
    hash('awaits', record.id, false)
  end
end

-- Make a job due if it waits for a signal that is there.
local function wake_signalled(record, now)
  if record[STATE] ~= SCHEDULED or not is(record, AWAITS) then return false end
  local signal = hget('awaits', record.id)
  if not signal or redis.call('HEXISTS', note_key(record.id), '!' .. signal) == 0 then return false end
  place(record, AVAILABLE, now, {[AT] = now})
  return true
end

-- The notes of a job that was put back just now, and a look for the signal that it awaits.  Notes: name, and place of the value.
local function write_snoozed(record, notes, now)
  for _, note in ipairs(notes) do
    if not hget('notes:' .. record.id, note[1]) then hash('notes:' .. record.id, note[1], due(now) .. ARGV[note[2]]) end
  end
  wake_signalled(record, now)
end
