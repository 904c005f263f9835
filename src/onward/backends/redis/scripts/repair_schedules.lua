-- needs: basics
-- Give schedules another name: old and new names come one after the other.  A schedule that has the new name stays.
for at = 2, #ARGV, 2 do
  local raw = redis.call('HGET', P .. 'schedules', ARGV[at])
  if raw and redis.call('HSETNX', P .. 'schedules', ARGV[at + 1], raw) == 1 then
    redis.call('HDEL', P .. 'schedules', ARGV[at])
  end
end
