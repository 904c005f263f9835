-- needs: basics
-- The notes of a job: names and what is noted, one after the other.
return redis.call('HGETALL', P .. 'notes:' .. A[1])
