"""The settings of a queue: those that would lose jobs are refused, with the command that corrects them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from onward.backends.servicebus.url import Address
from onward.errors import BackendMisconfigured

__all__ = ["QueueSettings", "admitted", "create_command", "objections"]

LEAST_DELIVERIES = 1000
_DELIVERIES = 2000
_STANDARD_SIZE = 256 * 1024
_FOR_EVER = timedelta(days=3650)


class QueueSettings(NamedTuple):
    """The settings that Onward uses.  The defaults are for a queue whose settings the key may not read."""

    lock: float | None = None  # seconds
    deduplicates: bool = False
    max_size: int = _STANDARD_SIZE


def admitted(address: Address, properties: Any) -> QueueSettings:
    """Return the settings of a queue; raises `BackendMisconfigured` if they would lose jobs."""
    for objection in objections(address, properties):
        raise BackendMisconfigured(objection)
    kilobytes = properties.max_message_size_in_kilobytes
    return QueueSettings(
        lock=_length(properties.lock_duration).total_seconds(),
        deduplicates=bool(properties.requires_duplicate_detection),
        max_size=_STANDARD_SIZE if not kilobytes else kilobytes * 1024,
    )


def objections(address: Address, properties: Any) -> Iterator[str]:
    """Yield the reasons why this queue could lose jobs."""
    name = properties.name
    update = f"az servicebus queue update {_names(address, name)}"
    anew = f"delete it when it is empty, then `{create_command(address, name)}`"
    if (properties.max_delivery_count or 0) < LEAST_DELIVERIES:
        yield (
            f"queue {name} gives a message up after {properties.max_delivery_count} deliveries, and every lost lock is "
            f"one: the workers count themselves; `{update} --max-delivery-count {_DELIVERIES}`"
        )
    lives = _length(properties.default_message_time_to_live)
    if lives < _FOR_EVER and not properties.dead_lettering_on_message_expiration:
        yield (
            f"queue {name} drops a job that has waited for {lives}: "
            f"`{update} --enable-dead-lettering-on-message-expiration true`"
        )
    if _length(properties.auto_delete_on_idle) < _FOR_EVER:
        yield f"queue {name} is deleted when it is not used, and its jobs with it: {anew}"
    if properties.requires_session:
        yield f"queue {name} requires sessions, which jobs do not have: {anew}"
    if properties.forward_to:
        yield f"queue {name} forwards its messages to {properties.forward_to}: {anew}"


def create_command(address: Address, entity: str) -> str:
    """Return the command that creates a queue with the right settings.

    >>> create_command(Address("shop.servicebus.windows.net"), "onward.default.mail").partition(" --max")[0]
    'az servicebus queue create --resource-group GROUP --namespace-name shop --name onward.default.mail'
    """
    return (
        f"az servicebus queue create {_names(address, entity)} --max-delivery-count {_DELIVERIES} --lock-duration PT1M "
        f"--enable-duplicate-detection true --duplicate-detection-history-time-window PT10M"
    )


def _names(address: Address, entity: str) -> str:
    return f"--resource-group GROUP --namespace-name {address.namespace} --name {entity}"


def _length(value: Any) -> timedelta:
    """Return a length of time; the SDK's None is no limit."""
    return value if isinstance(value, timedelta) else timedelta.max
