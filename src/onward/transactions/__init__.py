"""Jobs in transactions of the application.

Called by the application (``jobs.transaction``) and by an attempt (``ctx.transaction``).  The statements come from the
store, as generators (`onward.contract.transactions`); the connection is the caller's, or one that the store lends to
a handler.

Read `joining` (enqueue in the caller's transaction), `callers` and `drivers` (which connections of which drivers),
`completing` (commit a handler's writes with its job's success), `callers_block` (on a connection of the handler's own);
`blocks` (what both are given) and `waiting` (calls in a thread, and whether a commit arrived).
"""
