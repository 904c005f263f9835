"""A socket that a command listens on, bound before anything else is started."""

from __future__ import annotations

import socket

from onward.cli.exits import CommandError, Exit

__all__ = ["bound"]


def bound(host: str, port: int) -> socket.socket:
    """Open a socket that listens; an address that cannot be had is an error that says which, and why."""
    from onward.supervisor.http import bind

    try:
        return bind(host, port)
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (while attempting")[0]
        told = f"--listen: port {port} of {host} cannot be listened on: {why}; name another with --listen HOST:PORT"
        raise CommandError(told, Exit.CONFIG) from None
