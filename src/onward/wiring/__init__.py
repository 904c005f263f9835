"""From settings to parts: the one room that knows which objects an application is made of, and in which order.

    store, keys, registry ─▶ `producer` ─▶ `operators` ─▶ `engine`, all held by `parts`

Called by `app` alone.  The wiring reaches no server and starts no thread: the first use of the store connects.  A program
that only enqueues has a producer and nothing else: the other two are imported and made when one of them is first asked for.
"""
