"""A server's own count of deadlocks, before and after."""

import contextlib

__all__ = ["none_counted"]


@contextlib.contextmanager
def none_counted(count):
    """Fail if the count rises in the block."""
    before = count()
    yield
    assert count() == before, "the server counted deadlocks"
