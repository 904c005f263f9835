"""Named events, passed to every function that listens.

One run calls all listeners of an event, one after the other, also after one of them has failed.  If any has failed, the run
has: a retry calls all of them again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from onward.base.failure import escaped
from onward.base.names import job_name, suggestion
from onward.errors import ArgumentError, DefinitionError
from onward.handlers.time_left import TimeLeft
from onward.handlers.typed import TypedHandler
from onward.job.context import JobContext
from onward.job.definition import JobDefinition
from onward.job.registry import FunctionEntry, NotAllowed

__all__ = ["EventPayload", "Events", "ListenersFailed"]

F = TypeVar("F", bound=Callable[..., Any])


class EventPayload(msgspec.Struct, forbid_unknown_fields=True):
    """The name of an event, and its data."""

    name: str
    data: Any = None


class ListenersFailed(ExceptionGroup[Exception]):
    """Some listeners raised: the message names each and what it raised."""

    def __str__(self) -> str:
        return self.message


class Events(TypedHandler[EventPayload]):
    """``jobs.define("event", {"name": "order.paid", "data": {"order": 42}})``."""

    payload_type = EventPayload

    def __init__(self) -> None:
        self._listeners: dict[str, dict[str, FunctionEntry]] = {}

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secret places of all listeners, whichever event they listen to."""
        entries = [entry for listeners in self._listeners.values() for entry in listeners.values()]
        return tuple(sorted({f"data{_below(each)}" for entry in entries for each in entry.secrets}))

    def listen(self, event: str, function: F) -> F:
        """Call a function with the data of every such event."""
        listener = getattr(function, "__name__", "listener")
        if inspect.iscoroutinefunction(function):
            raise DefinitionError(f"listener {listener!r} is async: let a plain one enqueue an async job")
        entry = FunctionEntry(JobDefinition(name=listener, handler="event"), function)
        if len(entry.arguments.names) > 1:
            raise DefinitionError(
                f"listener {listener!r} takes {len(entry.arguments.names)} parameters: let it take one, for the event's "
                f"data, or none; put several into a dataclass"
            )
        listeners = self._listeners.setdefault(job_name(event), {})
        if listener in listeners:
            raise DefinitionError(f"a listener {listener!r} of {event!r} is already registered: give one another name")
        listeners[listener] = entry
        return function

    def read(self, payload: Any) -> EventPayload:
        """Return the event; raise if a listener here cannot be called with its data."""
        event = super().read(payload)
        for listener, entry in self._listeners.get(event.name, {}).items():
            try:
                entry.check(_arguments(entry, event.data))
            except ArgumentError as error:
                raise ArgumentError(f"event {event.name!r:.100}: listener {listener!r}: {error}") from None
        return event

    def decoded(self, payload: Any) -> Any:
        event = super().read(payload)
        return [entry.decoded(_arguments(entry, event.data)) for entry in self._listeners.get(event.name, {}).values()]

    def handle(self, ctx: JobContext, payload: EventPayload) -> dict[str, Any]:
        listeners = self._listeners.get(payload.name)
        if not listeners:
            known = suggestion(payload.name, self._listeners) if self._listeners else ""
            raise NotAllowed(f"event {payload.name!r:.100} is not allowed: it has no listener here{known}")
        time_left = TimeLeft(ctx)
        told: dict[str, Any] = {}
        failed: dict[str, Exception] = {}
        for listener, entry in listeners.items():
            if failed:
                time_left.nap()  # raises if the run's time is over
            try:
                told[listener] = entry.invoke(ctx, _arguments(entry, payload.data))
            except Exception as error:  # noqa: BLE001  the other listeners are called all the same
                failed[listener] = error
        if failed:
            raise _failure(payload.name, failed, len(listeners), ctx)
        return told


def _arguments(entry: FunctionEntry, data: Any) -> bytes:
    return msgspec.json.encode(dict.fromkeys(entry.arguments.names, data))


def _below(place: str) -> str:
    """Return a place without the name of its parameter: data travels without it."""
    _, slash, rest = place.partition("/")
    return slash + rest


def _failure(event: str, failed: dict[str, Exception], count: int, ctx: JobContext) -> Exception:
    if count == 1:
        return next(iter(failed.values()))
    said = {name: f"{type(error).__name__}: {escaped(ctx.scrub(str(error))[:300])}" for name, error in failed.items()}
    told = "; ".join(f"{name}: {each}" for name, each in said.items())
    return ListenersFailed(f"{len(failed)} of {count} listeners of {event!r} failed: {told}", list(failed.values()))
