"""One run of a job, from the lease to the last counter.  Called by the engines (`onward.worker`); starts no thread.

Read `prepare` (ready to be called, or already over; it verifies, opens and finds the handler), `attempt` (call
the handler, turn what happened into an outcome), `settle` (outcome to settlement, and the turn that carries it), `report`
(counters, events, log lines by the store's answer).  Then what only some jobs use: `hooked` (hooks around the handler),
`notebook` (notes of steps and sleeps), `growing` (jobs added to a flow), `occurrences` (whether a schedule's job runs),
`breakers` (what failed runs mean for others of their job), `commits` (whether a handler's own transaction was committed),
`overrun` (interruptions that a handler swallowed), `first_error` (what ``drain(raising=True)`` raises).

Only `settle`, `notebook`, `growing`, `occurrences` and `breakers` call the store, by the verbs of the contract.
"""
