-- needs: basics
-- The fields of a flow and what they hold, one after the other.
return redis.call('HGETALL', P .. 'flow:' .. A[1])
