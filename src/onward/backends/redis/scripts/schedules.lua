-- needs: basics
-- The time, and every schedule: names and rows, one after the other.
return {instant(A[1]), redis.call('HGETALL', P .. 'schedules')}
