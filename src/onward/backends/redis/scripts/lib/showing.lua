-- A job as it is shown: its record, the sealed bytes, progress, result, the records of its runs, whether it lives, and
-- whether it holds its unique key.

local function holds_key(id, raw)
  local is_whole, record = pcall(decode, id, raw)
  return is_whole and is(record, IS_UNIQUE) and redis.call('HGET', P .. 'unique', fixed(record)[FIELD.UNIQUE_KEY]) == id
end

local function shown(id, raw, live)
  local sealed, progress = redis.call('HGET', P .. 'sealed', id), redis.call('HGET', P .. 'progress', id)
  local older = not live and redis.call('HGET', P .. 'older', id)
  if older then
    local _
    _, sealed, progress = unpacked(older)
    sealed, progress = is_text(sealed) and sealed, is_text(progress) and progress ~= '' and progress
  end
  local result = not live and redis.call('HGET', P .. 'results', id)
  local awaits = live and redis.call('HGET', P .. 'awaits', id)  -- a job whose node waits is flagged
  return {id, raw, sealed or '', progress, result, redis.call('HVALS', P .. 'runs:' .. id), live and 1 or 0,
    live and holds_key(id, raw) and 1 or 0, awaits}
end
