"""One run of a job, from its lease to what people are told of it.

    prepare    verify, open, decrypt, resolve, allow, hold: ready to be called, or already over
    attempt    call the handler, and turn what happened into an outcome
    settle     the outcome as a settlement, and the turn that takes it to the store
    report     the store's answer as counters, events and log lines

The engines in `worker/` call this; nothing here starts a thread.
"""
