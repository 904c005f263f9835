"""The same, with every job signed and every signature checked."""

from __future__ import annotations

from bench.contenders import onward_sqlite
from bench.contenders.onward_sqlite import CONFIGS, bulk, crowd, enqueue, opened, processes, reset, sender, serve

__all__ = ["CONFIGS", "bulk", "crowd", "enqueue", "opened", "processes", "reset", "sender", "serve"]

onward_sqlite.SETTINGS |= {"signing_keys": {"bench": "a-secret-that-is-none-" * 2}, "signing": "require"}
