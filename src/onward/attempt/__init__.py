"""One run of a job, from the lease to the last counter.

Called by the engines (`onward.worker`); talks to a store only in `settle`, through the contract; starts no thread.

Read `prepare` (verify, open, find the handler: ready to be called, or already over), `attempt` (call the handler, and turn
what happened into an outcome), `settle` (outcome to settlement, and the turn that carries it), `report` (counters, events
and log lines by the store's answer).  Beside them: `overrun` (interruptions that a handler swallowed) and `first_error` (the
exception that `drain(raising=True)` raises).
"""
