"""The health of a namespace: whether it can be reached, and whether the settings of its queues lose no job."""

from __future__ import annotations

from typing import Any

from onward.backend import Check
from onward.backends.servicebus.bus import Bus
from onward.backends.servicebus.names import Names
from onward.backends.servicebus.settings import objections
from onward.base.wording import counted
from onward.errors import BackendError

__all__ = ["checks"]


def checks(bus: Bus, names: Names) -> list[Check]:
    if bus.address.unchecked:
        detail = "?unchecked=true: this key may not read the settings of the queues, so they were not checked"
        return [
            Check(name="queues", status="warn", detail=detail, fix="give the key the right Manage, and leave it out")
        ]
    try:
        queues = bus.properties(names.queue)
        counts = bus.counts(names.queue)
    except BackendError as error:
        fix = f"look at the namespace: {bus.address.place}"
        return [Check(name="server", status="fail", detail=str(error), fix=fix)]
    return [
        Check(
            name="server", status="ok", detail=f"{bus.address.place}, {counted(len(queues), 'queue')} of this namespace"
        ),
        _setup(bus, queues),
        _duplicates(queues),
        Check(name="waking", status="ok", detail="idle workers wait in a receive, on a connection of their own"),
        _dead(names, counts),
    ]


def _setup(bus: Bus, queues: list[Any]) -> Check:
    found = [objection for each in queues for objection in objections(bus.address, each)]
    if found:
        return Check(name="queues", status="fail", detail="; ".join(found), fix="change the settings of these queues")
    return Check(name="queues", status="ok", detail="deliveries, expiry and locks are set so that no job is lost")


def _duplicates(queues: list[Any]) -> Check:
    without = sorted(each.name for each in queues if not each.requires_duplicate_detection)
    if not without:
        return Check(
            name="duplicates", status="ok", detail="a message that is sent again after a lost answer is recognised"
        )
    detail = (
        f"{', '.join(without)}: no duplicate detection, so an enqueue whose answer is lost is an error instead of being "
        f"sent again; it can only be chosen when a queue is created"
    )
    return Check(
        name="duplicates", status="warn", detail=detail, fix="create these queues anew, with duplicate detection"
    )


def _dead(names: Names, counts: list[Any]) -> Check:
    dead = {names.queue(each.name.lower()): each.dead_letter_message_count or 0 for each in counts}
    if not any(dead.values()):
        return Check(name="dead letters", status="ok", detail="there are none")
    counted = ", ".join(f"{count} in {queue}" for queue, count in sorted(dead.items(), key=str) if count)
    return Check(name="dead letters", status="warn", detail=counted, fix="onward dead list")
