"""The health of a server: the settings that are checked at the start, memory, and leases without a session."""

from __future__ import annotations

from onward.backend import Check
from onward.backends.redis.server import Server, dangers

__all__ = ["checks"]

_NEARLY_FULL = 0.9


def checks(server: Server, place: str, stranded: int, wrong_slots: int) -> list[Check]:
    return [
        Check(name="server", status="ok", detail=f"{server.product} {server.version}, {place}"),
        _role(server),
        _durability(server),
        _memory(server),
        Check(name="waking", status="ok", detail="a blocking pop on a list that carries no jobs"),
        _leases(stranded),
        _slots(wrong_slots),
    ]


def _role(server: Server) -> Check:
    if server.role != "master":
        detail = "a replica: it cannot be written"
        return Check(name="role", status="fail", detail=detail, fix="export ONWARD_URL=redis://PRIMARY:6379")
    return Check(name="role", status="ok", detail="the primary")


def _durability(server: Server) -> Check:
    wrong = dangers(server)
    if server.write_error:
        wrong.append(f"{server.write_error}: the server cannot write its file: look at its log and its disk")
    if wrong:
        return Check(name="durability", status="fail", detail="; ".join(wrong), fix=_correction(server))
    if server.fsync != "always":
        return Check(
            name="durability",
            status="warn",
            detail=f"appendfsync {server.fsync}: a crash of the server loses nothing, a power cut the last second or two",
            fix="redis-cli CONFIG SET appendfsync always",
        )
    return Check(name="durability", status="ok", detail="appendonly yes, appendfsync always")


def _correction(server: Server) -> str:
    """Return the command that corrects the first setting that would lose jobs."""
    if server.policy != "noeviction":
        return "redis-cli CONFIG SET maxmemory-policy noeviction"
    if not server.appends:
        return "redis-cli CONFIG SET appendonly yes"
    return "df -h  # on the server"


def _memory(server: Server) -> Check:
    if not server.room:
        return Check(name="memory", status="ok", detail=f"{server.used:,} bytes used, no limit is set")
    share = server.used / server.room
    detail = f"{server.used:,} of {server.room:,} bytes used ({share:.0%})"
    if share < _NEARLY_FULL:
        return Check(name="memory", status="ok", detail=detail)
    return Check(
        name="memory",
        status="warn",
        detail=f"{detail}: once it is full nothing can be enqueued; raise maxmemory, or prune finished jobs",
        fix="onward prune --older-than 1h",
    )


def _leases(stranded: int) -> Check:
    """Check for running jobs that have lost their session."""
    if not stranded:
        return Check(name="leases", status="ok", detail="every running job belongs to a live session")
    return Check(
        name="leases",
        status="warn",
        detail=f"running jobs without a live session: {stranded}; they come back with the next sweep",
        fix="onward reap",
    )


def _slots(wrong: int) -> Check:
    """Check whether limits count the leases that there are."""
    if not wrong:
        return Check(name="limits", status="ok", detail="every running job is counted once")
    return Check(
        name="limits",
        status="warn",
        detail=f"running jobs that were counted wrongly: {wrong}; they have been counted anew, and the log says more",
        fix="onward health",
    )
