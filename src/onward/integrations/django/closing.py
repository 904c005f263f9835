"""Django's own connections in a worker: each thread has its own, and none outlives the thread that opened it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from asgiref.sync import AsyncToSync, SyncToAsync, ThreadSensitiveContext
from django.db import close_old_connections, connections

__all__ = ["close_all", "close_old", "own_thread_for_sync_code"]


def close_old() -> None:
    """Close the connections of this thread that are broken or past `CONN_MAX_AGE`, as Django does around a request."""
    close_old_connections()


def close_all() -> None:
    """Close every connection of this thread, which ends."""
    connections.close_all()


@asynccontextmanager
async def own_thread_for_sync_code() -> AsyncIterator[None]:
    """Give an async task a thread of its own for the ORM; close the connections of that thread, if it was needed."""
    context = ThreadSensitiveContext()
    # Not `async with context`: that would keep a context inherited from the caller, and so would what is set to None here.
    # On sync:// the caller's thread waits for this very task, and asking it to run something would be waiting for oneself.
    token = SyncToAsync.thread_sensitive_context.set(context)
    AsyncToSync.executors.current = None
    try:
        yield
    finally:
        executor = SyncToAsync.context_to_thread_executor.pop(context, None)
        if executor is not None:
            closed = asyncio.get_running_loop().run_in_executor(executor, connections.close_all)
            executor.shutdown(wait=False)
            await asyncio.shield(closed)
        SyncToAsync.thread_sensitive_context.reset(token)
