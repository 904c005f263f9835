"""The health of broker and store, and whether they agree."""

from __future__ import annotations

import msgspec

from onward.backend import Backend, Check, Counting, Health
from onward.backends.companion.sweeping import lacking, runs_flows, served
from onward.contract.companion import CompanionStore
from onward.errors import BackendError

__all__ = ["checks"]


def checks(broker: Backend, store: CompanionStore) -> list[Check]:
    """Check both.  If one cannot be reached, the other is still checked."""
    found = [*_of("broker", broker), *_of("store", store)]
    if isinstance(broker, Counting) and not any(check.status == "fail" for check in found):
        found.append(_agreement(broker, store))
    return found


def _of(which: str, one: object) -> list[Check]:
    if not isinstance(one, Health):
        return []
    try:
        return [msgspec.structs.replace(check, name=f"{which}: {check.name}") for check in one.health()]
    except BackendError as error:
        return [Check(name=which, status="fail", detail=str(error), fix=f"start the {which}, or look at its log")]


def _agreement(broker: Counting, store: CompanionStore) -> Check:
    flows = runs_flows(store)
    found = {queue: lacking(broker, store, queue, live, flows=flows)[0] for queue, live in served(store)}
    missing = {queue: count for queue, count in found.items() if count}
    if not missing:
        return Check(name="messages", status="ok", detail="no job of the store lacks a message in the broker")
    told = ", ".join(f"{count} of {name}" for name, count in sorted(missing.items()))
    detail = f"jobs of the store without a message in the broker: {told}; workers put them again when they sweep"
    return Check(name="messages", status="warn", detail=detail, fix="onward reap", about=tuple(sorted(missing)))
