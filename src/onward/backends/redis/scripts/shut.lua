-- needs: basics, records, chunks, writes, counting, tokens, waking, lanes, jobs, limits
-- Shut a lane, or all lanes of a job, until it is opened; or open it.
local lane, is_opened = A[1], A[2]

even_if_full()
local gate = limits.gate('\n' .. lane)
gate.shut_until, gate.shut_for = is_opened and 0 or LAST_INSTANT, 0
limits.set_gate('\n' .. lane, gate)
is_lenient = true
flush()
limits.wake_all()
