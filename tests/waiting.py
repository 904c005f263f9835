"""Waiting for a fact, instead of for a while."""

import time

PATIENCE = 60.0  # seconds: reached only when something is broken


def eventually(fact, within=PATIENCE, what="it did not come", every=0.003):
    """Wait for a fact, and give it.  If it never comes this fails; it never just sleeps."""
    deadline = time.monotonic() + within
    while not (value := fact()):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(every)
    return value
