-- needs: basics
-- Say that these schedules are declared by a running process.  A row that is too short to say so is left as it is.
local now, names = instant(A[1]), A[2]

for _, name in ipairs(names) do
  local raw = redis.call('HGET', P .. 'schedules', name)
  if raw and #raw >= 16 then
    redis.call('HSET', P .. 'schedules', name, sub(raw, 1, 8) .. due(now) .. sub(raw, 17))
  end
end
