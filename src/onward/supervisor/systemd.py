"""Reporting readiness and health to systemd, where it asks for that (``Type=notify``)."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

__all__ = ["notify", "watchdog_interval"]


def notify(state: str) -> None:
    """Send ``READY=1``, ``STOPPING=1`` or ``WATCHDOG=1``; without systemd it does nothing."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.settimeout(0)  # systemd may hang; the supervisor must not
        sender.connect("\0" + address[1:] if address.startswith("@") else address)
        sender.send(state.encode())


def watchdog_interval() -> float | None:
    """Return the seconds between two reports: half of what systemd demands; None if it demands none."""
    with suppress(ValueError):
        if int(os.environ.get("WATCHDOG_PID", os.getpid())) == os.getpid():
            return int(os.environ["WATCHDOG_USEC"]) / 2_000_000 if "WATCHDOG_USEC" in os.environ else None
    return None
