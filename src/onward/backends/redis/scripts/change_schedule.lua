-- needs: basics, heads, records, chunks, writes, audit, counting, tokens, waking, lanes, flows, jobs, adding, removing, schedules
-- Write or delete a schedule if its version is still the one that was seen, and with it remove and store jobs.  Answers whether
-- it was.
local now, name, seen, following, row, taken_back, envelopes = instant(A[1]), A[2], A[3], A[4], A[5], A[6], A[7]
local entries = A[8]

if version_of(redis.call('HGET', P .. 'schedules', name)) ~= seen then return 0 end
remove_unbegun(taken_back)
load_envelopes(envelopes)
for _, envelope in ipairs(envelopes) do add(envelope, now, true) end
audit.store(entries, {})
hash('schedules', name, row and struct.pack(FORMAT.schedule, following, now) .. ARGV[row] or false)
flush()
flush_counts()
wake()
return 1
