"""The same, without counters and samples."""

from __future__ import annotations

from bench.contenders import onward_sqlite
from bench.contenders.onward_sqlite import CONFIGS, bulk, crowd, enqueue, opened, processes, reset, sender, serve

__all__ = ["CONFIGS", "bulk", "crowd", "enqueue", "opened", "processes", "reset", "sender", "serve"]

onward_sqlite.SETTINGS |= {"metrics": False}
