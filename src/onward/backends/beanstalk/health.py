"""The health of a server: which version, whether it writes to its disk, and how many jobs are buried.

After an error of its disk a server stops writing, for good, and goes on answering that jobs are stored.  It does not say so;
but then its count of written records does not grow.  So this check puts and removes a job and compares that count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from onward.backend import Capabilities, Check
from onward.backends.beanstalk.connection import Connection
from onward.backends.beanstalk.tubes import Tubes
from onward.backends.beanstalk.url import Address
from onward.errors import BackendError, BackendMisconfigured

__all__ = ["admitted", "checks"]

_OLDEST = (1, 12)  # the first in which a job can be reserved by its number
_CANARY = "onward-canary"
_A_DAY = 86_400


def admitted(address: Address, said: Mapping[str, Any], capabilities: Capabilities) -> Capabilities:
    """Return the capabilities of a server like this; raises `BackendMisconfigured` if they are not enough."""
    if _version(said) < _OLDEST:
        raise BackendMisconfigured(f"{address.place} is beanstalkd {said['version']}: 1.12 or newer is needed")
    if _has_log(said):
        return capabilities
    if not address.allow_lossy:
        raise BackendMisconfigured(
            f"{address.place} keeps jobs in memory only, so a restart would lose them all: start it with "
            f"`beanstalkd -b DIRECTORY -f 0`, or write ?allow_lossy=true"
        )
    return msgspec.structs.replace(capabilities, durable=False)


def checks(connection: Connection, tubes: Tubes) -> list[Check]:
    said = connection.stats()
    found = [
        Check(name="server", status="ok", detail=f"beanstalkd {said['version']}, {connection.address.place}"),
        _durability(connection, said),
        Check(name="waking", status="ok", detail="idle workers look ten times a second, on a connection of their own"),
        _buried(connection, tubes),
    ]
    if str(said["draining"]) == "true":
        found.append(
            Check(
                name="draining",
                status="fail",
                detail="the server takes no jobs any more, not even retries",
                fix="systemctl restart beanstalkd",
            )
        )
    return found


def _durability(connection: Connection, said: Mapping[str, Any]) -> Check:
    if not _has_log(said):
        detail = "no write-ahead log: a restart loses every job"
        return Check(name="durability", status="fail", detail=detail, fix="beanstalkd -b DIRECTORY -f 0")
    try:
        number = connection.put(_CANARY, b"", priority=0, delay=_A_DAY, ttr=_A_DAY)
        connection.delete(number)
    except BackendError as error:
        detail = f"a job cannot be stored: {error}"
        return Check(name="durability", status="fail", detail=detail, fix="df -h  # on the server")
    if connection.stats()["binlog-records-written"] <= said["binlog-records-written"]:
        detail = (
            "the server has stopped writing to its log, as it does after an error of the disk, and a restart would lose "
            "what it takes now: look at its disk, then restart it"
        )
        return Check(name="durability", status="fail", detail=detail, fix="df -h && systemctl restart beanstalkd")
    detail = "the write-ahead log grows; whether every write is flushed (-f 0) the server does not tell"
    return Check(name="durability", status="ok", detail=detail)


def _buried(connection: Connection, tubes: Tubes) -> Check:
    buried = {}
    for tube in connection.tubes():
        queue = tubes.queue(tube)
        said = connection.stats_tube(tube) if queue is not None else None
        if said is not None and said["current-jobs-buried"]:
            buried[queue] = said["current-jobs-buried"]
    if not buried:
        return Check(name="dead letters", status="ok", detail="nothing is buried")
    counted = ", ".join(f"{count} in {queue}" for queue, count in sorted(buried.items()))
    return Check(
        name="dead letters",
        status="warn",
        detail=f"buried: {counted}",
        fix="onward dead list",
        about=tuple(sorted(map(str, buried))),
    )


def _has_log(said: Mapping[str, Any]) -> bool:
    return int(said["binlog-current-index"]) > 0


def _version(said: Mapping[str, Any]) -> tuple[int, ...]:
    numbers = str(said["version"]).split("+")[0].split(".")
    return tuple(int(number) for number in numbers if number.isdecimal())
