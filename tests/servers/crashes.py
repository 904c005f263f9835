"""Servers that end by themselves, which is not our failure: they are started again, and who met it is told apart."""

import signal
import weakref

_watched = weakref.WeakSet()


def watch(server):
    """A server with a `name`, `ended_by_itself` (its exit code, or None) and `start`."""
    _watched.add(server)


def crashed():
    """Which servers have ended by themselves, and how; they are started again."""
    found = []
    for server in list(_watched):
        if (code := server.ended_by_itself()) is not None:
            server.start()
            found.append(f"{server.name} crashed: {signal.Signals(-code).name if code < 0 else f'exit code {code}'}")
    return found
