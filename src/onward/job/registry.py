"""The handlers of an application by name.  Only a registered handler can ever run: a name from a store is only compared."""

from __future__ import annotations

import builtins
import inspect
import logging
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from onward.base import names
from onward.base.failure import describe
from onward.base.logs import get_logger
from onward.errors import DefinitionError, JobInterrupted, OptionError
from onward.job.arguments import Arguments
from onward.job.context import AsyncJobContext, JobContext
from onward.job.definition import JobDefinition
from onward.job.envelope import Letter
from onward.job.hooks import Hook, add_hook, refuse_missed
from onward.job.parameters import plain
from onward.job.scrubbing import Scrub, scrubber
from onward.job.unique_key import UniqueKey

__all__ = ["Entry", "FunctionEntry", "Handler", "HandlerEntry", "NotAllowed", "Ran", "Registry", "returns_of"]


logger = get_logger("onward")


class NotAllowed(Exception):
    """Raised by a handler that is not allowed to run this payload here.  The job is not retried."""


class Ran(NamedTuple):
    """How a run went, for a handler's `after_run`."""

    value: Any = None
    error: BaseException | None = None

    @property
    def succeeded(self) -> bool:
        return self.error is None


class Handler(Protocol):
    """Code that jobs may name by key, with a payload of its own shape: ``shell`` and the like.

    It may also have ``before_run(ctx)``, which fails the attempt by raising, and ``after_run(ctx, ran)``, which is called
    after every attempt and changes nothing by raising.
    """

    def check(self, payload: Any) -> None:
        """Raise for a payload that could never run.  Called where a job is enqueued."""
        ...

    def run(self, ctx: JobContext) -> Any:
        """Run one attempt.  Raises `NotAllowed` to refuse for good."""
        ...


class Entry(Protocol):
    """The code that a name stands for."""

    definition: JobDefinition
    is_async: bool
    takes_context: bool
    denied_by_default: bool  # runs only on queues that name it
    returns: Any

    @property
    def unique_key(self) -> UniqueKey | None:
        """The function that makes the key of a call, if it has one."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """The places in its payload that are never shown (`onward.job.secrets`)."""
        ...

    def decoded(self, payload: bytes | msgspec.Raw) -> Any:
        """Return the arguments as the handler gets them, defaults included.  Raises if they do not fit."""
        ...

    def invoke(self, ctx: JobContext | None, payload: bytes | msgspec.Raw) -> Any: ...

    def bound(self, ctx: JobContext | None, payload: bytes | msgspec.Raw) -> Callable[[], Any]:
        """Decode the payload and return the call that is left to make."""
        ...

    def check(self, payload: bytes) -> None: ...

    def fit(self, payload: bytes | msgspec.Raw) -> object:
        """Raise what a run would raise for a payload that its code cannot be called with; run none of that code."""
        ...


class FunctionEntry:
    """A decorated function."""

    denied_by_default = False

    def __init__(self, definition: JobDefinition, function: Callable[..., Any]) -> None:
        _refuse_generator(function, definition.name)
        self.definition = definition
        self.function = function
        self.arguments = Arguments(function, definition.name)
        self.takes_context = self.arguments.takes_context
        self.is_async = inspect.iscoroutinefunction(function)
        if self.takes_context and not self.is_async:
            _refuse_awaiting_context(function, definition.name)
        self.returns = returns_of(function)
        self.check = self.arguments.check
        self.fit = self.arguments.unpack
        self.secrets = self.arguments.secrets
        given = definition.unique_key
        self.unique_key = None if given is None else UniqueKey(definition.name, given, self.arguments)

    def decoded(self, payload: bytes | msgspec.Raw) -> Any:
        return self.arguments.unpack(payload)

    def invoke(self, ctx: JobContext | None, payload: bytes | msgspec.Raw) -> Any:
        args, kwargs = self.arguments.unpack(payload)
        if self.takes_context:
            return self.function(ctx, *args, **kwargs)
        return self.function(*args, **kwargs)

    def bound(self, ctx: JobContext | None, payload: bytes | msgspec.Raw) -> Callable[[], Any]:
        args, kwargs = self.arguments.unpack(payload)
        given = (ctx, *args) if self.takes_context else args
        return partial(self.function, *given, **kwargs)


class HandlerEntry:
    """A handler named by key."""

    denied_by_default = True
    takes_context = True
    returns = Any
    unique_key = None

    def __init__(self, key: str, handler: Handler) -> None:
        self.definition = JobDefinition(name=key, handler=key)
        self.handler = handler
        self.is_async = any(map(inspect.iscoroutinefunction, (handler.run, getattr(handler, "handle", None))))
        self._before: Callable[[JobContext], Any] = getattr(handler, "before_run", _nothing)
        self._after: Callable[[JobContext, Ran], Any] = getattr(handler, "after_run", _nothing)
        if not self.is_async and any(map(inspect.iscoroutinefunction, (self._before, self._after))):
            raise DefinitionError(
                f"handler {key!r}: its hooks are async and its run is not: make all of them async, or none"
            )

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(getattr(self.handler, "secrets", ()))

    def admit(self, payload: Any) -> Any:
        """Return the payload as it travels: only the handler ``callable`` replaces it."""
        admit: Callable[[Any], Any] | None = getattr(self.handler, "admit", None)
        return payload if admit is None else admit(payload)

    def check(self, payload: bytes | msgspec.Raw) -> None:
        self.handler.check(msgspec.json.decode(payload))

    fit = check

    def decoded(self, payload: bytes | msgspec.Raw) -> Any:
        decoded: Callable[[Any], Any] | None = getattr(self.handler, "decoded", None)
        return None if decoded is None else decoded(msgspec.json.decode(payload))

    def invoke(self, ctx: JobContext | None, payload: bytes | msgspec.Raw) -> Any:
        assert ctx is not None
        return self._run_async(ctx) if self.is_async else self._run(ctx)

    def bound(self, ctx: JobContext | None, payload: bytes | msgspec.Raw) -> Callable[[], Any]:
        return partial(self.invoke, ctx, payload)

    def _run(self, ctx: JobContext) -> Any:
        try:
            self._before(ctx)
            value = self.handler.run(ctx)
        except BaseException as error:
            with self._unharmed(ctx):
                self._after(ctx, Ran(error=error))
            raise
        with self._unharmed(ctx):
            self._after(ctx, Ran(value))
        return value

    async def _run_async(self, ctx: JobContext) -> Any:
        try:
            await _maybe(self._before(ctx))
            value = await _maybe(self.handler.run(ctx))
        except BaseException as error:
            with self._unharmed(ctx):
                await _maybe(self._after(ctx, Ran(error=error)))
            raise
        with self._unharmed(ctx):
            await _maybe(self._after(ctx, Ran(value)))
        return value

    @contextmanager
    def _unharmed(self, ctx: JobContext) -> Iterator[None]:
        """Call the hook after a run, and log what it raises: the run itself stands."""
        try:
            yield
        except (Exception, SystemExit, JobInterrupted) as error:  # noqa: BLE001  it is logged, below
            failure = describe(error, ctx.scrub)  # it may quote a secret of the job, or what the run raised
            logger.log_traceback(
                logging.ERROR,
                "after_run of handler %r failed; the outcome of its run stands: %s: %s",
                self.definition.name,
                failure.kind,
                failure.message,
                extra={"job_id": ctx.id},
                traceback=failure.traceback.rstrip(),
            )


def _nothing(*_: Any) -> None:
    """Do nothing: there is no hook."""


async def _maybe(value: Any) -> Any:
    """Await a hook, or call it: one of an async handler may be plain."""
    return await value if inspect.isawaitable(value) else value


class Registry:
    """Names to entries, and which of them each queue allows."""

    def __init__(self, queue_handlers: Mapping[str, Sequence[str]] | None = None) -> None:
        self._entries: dict[str, Entry] = {}
        self._own: dict[str, Entry] = {}  # jobs that Onward makes itself
        self.hooks: tuple[Hook, ...] | None = None  # around every attempt
        self.at_thread_end: list[Callable[[], object]] = []  # for what handlers have left in their thread
        self._allowed: dict[str, frozenset[str]] = {}
        for queue, allowed in (queue_handlers or {}).items():
            if isinstance(allowed, str) or not isinstance(allowed, Iterable):
                raise OptionError("queue_handlers maps a queue to a list of names, such as {'ops': ['shell']}")
            self._allowed[names.queue_name(queue)] = frozenset(allowed)

    def add_hook(self, function: Any, only: str | None) -> None:
        """Register a function to be entered around every attempt, inside of those that are registered already."""
        self.hooks = add_hook(self.hooks or (), function, only, self._entries.items())

    def add(self, entry: Entry) -> None:
        refuse_missed(self.hooks or (), entry.definition.name, entry)
        if entry.definition.name in self._own:
            raise DefinitionError(
                f"the name {entry.definition.name!r} is Onward's own: @jobs.job(name=…) gives another"
            )
        for name in (entry.definition.name, *entry.definition.aliases):
            first = self._entries.get(name)
            if first is None:
                continue
            if not _is_again(first, entry):
                raise DefinitionError(
                    f"a job named {name!r} is already registered{_place(first)}: give one of them another name with "
                    f"@jobs.job(name=…)"
                )
            self._entries = {name: each for name, each in self._entries.items() if each is not first}
        for name in (entry.definition.name, *entry.definition.aliases):
            self._entries[name] = entry

    def add_own(self, entry: Entry) -> None:
        """Register a job that Onward makes itself: it is in no list, and runs on every queue."""
        self._own[entry.definition.name] = entry

    def find(self, name: str) -> Entry | None:
        return self._entries.get(name) or self._own.get(name)

    def secrets_of(self, name: str) -> tuple[str, ...]:
        """Return the places in a job's payload that are never shown, if the job is known here."""
        entry = self._entries.get(name)
        return () if entry is None else entry.secrets

    def scrubber(self, letter: Letter) -> Scrub:
        """Return the function that scrubs texts about a job, of the secrets that its producer or this application knows."""
        entry = self._entries.get(letter.job)
        known = () if entry is None else entry.secrets
        secrets = {*letter.secrets, *known} if letter.secrets else known
        decoded = partial(entry.decoded, letter.payload) if entry is not None and known else None
        return scrubber(letter.payload, secrets, decoded)

    def of_function(self, function: Any) -> FunctionEntry | None:
        """Return the entry of a function that was made a job; None if it was not."""
        functions = (entry for entry in self._entries.values() if isinstance(entry, FunctionEntry))
        return next((entry for entry in functions if entry.function is function), None)

    def refusal(self, entry: Entry, name: str, queue: str) -> str | None:
        """Return why this entry may not run on this queue, or None if it may."""
        allowed = self._allowed.get(queue)
        if self._own.get(name) is entry:
            return None
        if allowed is None:
            if entry.denied_by_default:
                return f"handler {name!r} is not allowed on queue {queue!r}: queue_handlers does not name it"
            return None
        if name in allowed or entry.definition.name in allowed:
            return None
        return f"{name!r} is not allowed on queue {queue!r}: queue_handlers lists {', '.join(sorted(allowed)) or 'nothing'}"

    @property
    def known(self) -> list[str]:
        """The names and aliases of all jobs."""
        return sorted(self._entries)

    @property
    def allowed(self) -> Mapping[str, tuple[str, ...]]:
        """The only jobs that run on each of these queues."""
        return {queue: tuple(sorted(allowed)) for queue, allowed in sorted(self._allowed.items())}

    @property
    def denied(self) -> tuple[str, ...]:
        """The handlers that run only on queues which allow them."""
        return tuple(sorted(name for name, entry in self._entries.items() if entry.denied_by_default))

    def queues(self) -> list[str]:
        """Return the queues that registered jobs are enqueued on, `default` among them."""
        return sorted({entry.definition.queue for entry in self._entries.values()} | {"default"} | self._allowed.keys())

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))


def _refuse_generator(function: Callable[..., Any], name: str) -> None:
    found = next((word for is_one, word in _GENERATORS if is_one(plain(function))), None)
    if found is not None:
        raise DefinitionError(
            f"job {name!r} is {found}, and to call it runs nothing of it: return a list instead of yielding, or let it "
            f"enqueue a job for each item"
        )


_GENERATORS = ((inspect.isasyncgenfunction, "an async generator"), (inspect.isgeneratorfunction, "a generator"))


def _is_again(first: Entry, second: Entry) -> bool:
    """Return whether the same definition was executed again, as in a cell of a notebook: the later one counts."""
    if not isinstance(first, FunctionEntry) or not isinstance(second, FunctionEntry):
        return False
    places = [
        (getattr(entry.function, "__module__", None), getattr(entry.function, "__qualname__", None))
        for entry in (first, second)
    ]
    return places[0] == places[1] and (places[0][0] == "__main__" or hasattr(builtins, "__IPYTHON__"))


def _place(entry: Entry) -> str:
    """Return where a job was defined, as the end of an error text."""
    if isinstance(entry, HandlerEntry):
        return ", as the key of a handler"
    code = getattr(plain(getattr(entry, "function", _nothing)), "__code__", None)
    return "" if code is None else f", in {code.co_filename}, line {code.co_firstlineno}"


def _refuse_awaiting_context(function: Callable[..., Any], name: str) -> None:
    """Raise if a plain function asks for a context whose steps it could not await."""
    hints = typing.get_type_hints(plain(function))
    if any(hint is AsyncJobContext for hint in hints.values()):
        raise DefinitionError(
            f"job {name!r} is a plain function and asks for an AsyncJobContext, whose steps are awaited: write "
            f"`ctx: JobContext`, or make it an `async def`"
        )


def returns_of(function: Callable[..., Any]) -> Any:
    """Return the type that a function says it returns, by which what it returned is read again."""
    try:
        hint = typing.get_type_hints(plain(function)).get("return", Any)
    except NameError:
        return Any
    return hint if hint is not None else type(None)
