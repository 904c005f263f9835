"""Handlers that jobs name by key: `shell`, `url`, `event`, `command`, ``callable``, and those of the application.

Each is off until the application configures it, and runs only on queues that name it.  Made by the wiring with ``build``,
called by an attempt through `onward.job.registry`.  They talk to programs and servers, never to a store.

Read `typed` (a handler of one's own), `event` and `closure`; then `shell` and `command` with `program`, `limits` and
`confined`; then `url` with `target`, `address` (where it may go), `exchange` (how) and `time_left`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from onward.base.names import job_name, suggestion
from onward.errors import OptionError
from onward.handlers.closure import Closures
from onward.handlers.command import Commands
from onward.handlers.event import Events
from onward.handlers.shell import Shell
from onward.handlers.typed import TypedHandler
from onward.job.registry import Handler, NotAllowed, Ran

__all__ = ["Closures", "Commands", "Events", "Handler", "NotAllowed", "Ran", "Shell", "TypedHandler", "build", "the"]

Configured = Mapping[str, Any] | Handler
H = TypeVar("H")


def build(configured: Mapping[str, Configured], *, store: Mapping[str, str | None] | None = None) -> dict[str, Handler]:
    """Return the handlers an application asked for: ``{"shell": {"allow": ["/usr/bin/rsync"]}, "resize": Resize()}``.

    ``store`` are the variables by which another process finds the application's store, None if none could.
    """
    return {job_name(key): _build(key, options, store) for key, options in configured.items()}


def the(kind: type[H], handlers: Mapping[str, Handler], key: str) -> H:
    """Return the handler of that key; raises an `OptionError` if it is off."""
    handler = handlers.get(key)
    if not isinstance(handler, kind):
        raise OptionError(
            f"the {key} handler is off: turn it on with handlers={{{key!r}: {{}}}} and queue_handlers={{'…': [{key!r}]}}"
        )
    return handler


def _build(key: str, options: Configured, store: Mapping[str, str | None] | None) -> Handler:
    if not isinstance(options, Mapping):
        return _own(key, options)
    kinds: dict[str, Callable[..., Handler]] = {
        "shell": Shell,
        "url": _url,
        "event": Events,
        "command": lambda **options: Commands(store=store, **options),
        "callable": lambda **options: _closures(in_memory=store is None, **options),
    }
    if key not in kinds:
        raise OptionError(f"there is no handler {key!r}{suggestion(key, kinds)}")
    try:
        return kinds[key](**options)
    except OptionError:
        raise
    except TypeError as error:
        raise OptionError(f"handler {key!r}: {error}") from None


def _own(key: str, handler: Any) -> Handler:
    if not callable(getattr(handler, "check", None)) or not callable(getattr(handler, "run", None)):
        raise OptionError(f"handler {key!r}: give its options, or an object with check(payload) and run(ctx)")
    own: Handler = handler
    return own


def _url(**options: Any) -> Handler:
    from onward.handlers.url import Url  # TLS takes long to import, and few applications need it

    return Url(**options)


def _closures(*, in_memory: bool) -> Handler:
    if not in_memory:
        raise OptionError(
            "handler 'callable': a function cannot travel to another process: use memory:// or sync://, or make it a job "
            "with @jobs.job"
        )
    return Closures()
