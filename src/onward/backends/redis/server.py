"""The settings of a server, and which of them would lose jobs.

A job that was accepted is never lost: so the server must not evict keys when its memory is full, must write to a file, and
must not be a replica.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple, Protocol

from onward.backends.redis.driver import redis

__all__ = ["OLDEST", "Server", "dangers", "inspect"]

OLDEST = (6, 2)


class Asked(Protocol):
    """A connection that commands can be sent over."""

    def ask(self, *command: Any) -> Any: ...


class Server(NamedTuple):
    """The version and the settings of a server."""

    product: str = "Redis"
    version: str = "0"
    compatible: tuple[int, ...] = (0,)  # the version of Redis that it is compatible with
    loading: bool = False  # it is still reading its file
    role: str = "master"
    policy: str = "noeviction"
    appends: bool = True
    fsync: str = "everysec"  # the default, where a hosted server hides it
    write_error: str = ""
    used: int = 0
    room: int = 0  # 0: as much as the machine has

    @property
    def durable(self) -> bool:
        """Whether a write that it has answered survives a power cut."""
        return self.appends and self.fsync == "always" and self.policy == "noeviction"


def inspect(connection: Asked) -> Server:
    """Ask a server for its settings.  What a hosted server hides is assumed to be its default."""
    found = _fields(connection.ask("INFO"))
    fsync = "everysec"
    with contextlib.suppress(redis.ResponseError):
        pairs = connection.ask("CONFIG", "GET", "appendfsync")
        fsync = bytes(pairs[1]).decode() if pairs else fsync
    compatible = found.get("redis_version", "0")
    valkey = found.get("valkey_version")
    bad = [name for name in ("aof_last_write_status", "aof_last_bgrewrite_status") if found.get(name, "ok") != "ok"]
    return Server(
        product="Valkey" if valkey else "Redis",
        version=valkey or compatible,
        compatible=tuple(int(part) for part in compatible.split(".") if part.isdecimal()),
        loading=found.get("loading", "0") != "0",
        role=found.get("role", "master"),
        policy=found.get("maxmemory_policy", "noeviction"),
        appends=found.get("aof_enabled", "1") == "1",
        fsync=fsync,
        write_error=", ".join(bad),
        used=int(found.get("used_memory", "0")),
        room=int(found.get("maxmemory", "0")),
    )


def dangers(server: Server) -> list[str]:
    """Return the settings that would lose jobs, each with the command that corrects it."""
    found = []
    if server.policy != "noeviction":
        found.append(
            f"maxmemory-policy is {server.policy}: when its memory is full the server deletes jobs: "
            f"CONFIG SET maxmemory-policy noeviction, and the same in its configuration file"
        )
    if not server.appends:
        found.append(
            "appendonly is off: a restart loses what came since the last snapshot, or everything: "
            "CONFIG SET appendonly yes, and the same in its configuration file"
        )
    return found


def _fields(info: Any) -> dict[str, str]:
    text = info.decode() if isinstance(info, bytes) else str(info)
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
