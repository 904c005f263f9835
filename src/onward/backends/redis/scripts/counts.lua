-- needs: basics, heads, records
-- How many jobs are in each state, in all or in one queue.
return redis.call('HGETALL', P .. (A[1] and 'counts:' .. A[1] or 'counts'))
