"""Jobs in transactions.

    callers       which driver a caller's connection is of, and how statements run on it
    joining       enqueueing in the caller's own transaction
    completing    a handler's transaction, committed together with the success of its job

`jobs.transaction(connection)` opens a joining, a handler's `ctx.transaction()` a completing.
"""
