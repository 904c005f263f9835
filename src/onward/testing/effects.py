"""Recording the effects of a handler, and simulating an accident right after one of them."""

from __future__ import annotations

import functools
import inspect
import reprlib
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple, TypeVar, cast

from onward.errors import OptionError
from onward.job.signals import Signal

__all__ = ["Crash", "Effect", "Effects", "Kind", "Plan", "Recording", "text"]

F = TypeVar("F", bound=Callable[..., Any])
Kind = Literal["undisturbed", "crash", "duplicate"]

_NOTHING: Any = object()


class Crash(BaseException):
    """The simulated death of a process.  Not an `Exception`: no handler has a reason to catch it."""


class Effect(NamedTuple):
    """One effect of a handler outside its process, such as a charged card."""

    number: int  # in its scenario, from 1
    run: int  # of the handler, from 1
    name: str
    call: str  # with its arguments, as text

    def __str__(self) -> str:
        return self.call


class Effects:
    """Records the effects of a handler.  Outside a simulation calls go through, unrecorded."""

    def __init__(self) -> None:
        self._patches: list[tuple[Any, str, str]] = []
        self._scenario: Recording | None = None

    def record(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Record an effect: ``effects.record("charged", order)``, in a fake of another system."""
        if self._scenario is not None:
            self._scenario.happened(name, args, kwargs)

    def wrap(self, function: F, *, name: str | None = None) -> F:
        """Return a function, async or not, whose calls are effects.  A call that raises is none."""
        return cast("F", self._wrapped(function, name or _name_of(function)))

    def patch(self, target: object, attribute: str, *, name: str | None = None) -> None:
        """Wrap an attribute of a module, an object or a class while a simulation runs: ``effects.patch(bank, "charge")``."""
        if not callable(getattr(target, attribute)):  # raises, too, if there is no such attribute
            raise OptionError(f"{attribute} of {target!r:.60} cannot be called, so it can have no effect")
        self._patches.append((target, attribute, name or attribute))

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Wrap the attributes inside the block, and put them back afterwards.  `simulate` does this itself."""
        with ExitStack() as stack:
            for target, attribute, name in self._patches:
                stack.enter_context(self._patched(target, attribute, name))
            yield

    @contextmanager
    def _patched(self, target: Any, attribute: str, name: str) -> Iterator[None]:
        own = vars(target).get(attribute, _NOTHING) if hasattr(target, "__dict__") else _NOTHING
        unbound = inspect.isclass(target) and inspect.isfunction(inspect.getattr_static(target, attribute))
        wrapped = self._wrapped(getattr(target, attribute), name, unbound=unbound)
        setattr(target, attribute, staticmethod(wrapped) if inspect.isclass(target) and not unbound else wrapped)
        try:
            yield
        finally:
            if own is _NOTHING:
                delattr(target, attribute)
            else:
                setattr(target, attribute, own)

    def _wrapped(self, function: Callable[..., Any], name: str, *, unbound: bool = False) -> Callable[..., Any]:
        def done(recording: Recording, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
            recording.happened(name, args[1:] if unbound else args, kwargs)

        async def finish(
            awaitable: Awaitable[Any], recording: Recording, args: tuple[Any, ...], kwargs: Mapping[str, Any]
        ) -> Any:
            result = await awaitable
            done(recording, args, kwargs)
            return result

        def call(*args: Any, **kwargs: Any) -> Any:
            recording = self._scenario
            if recording is None:
                return function(*args, **kwargs)
            recording.refuse_the_dead()
            result = function(*args, **kwargs)
            if inspect.isawaitable(result):
                return finish(result, recording, args, kwargs)
            done(recording, args, kwargs)
            return result

        async def acall(*args: Any, **kwargs: Any) -> Any:
            return await call(*args, **kwargs)

        # Not every callable has the attributes that `wraps` copies, and a mock has too many.
        wrapper = acall if inspect.iscoroutinefunction(function) else call
        return functools.wraps(function)(wrapper) if inspect.isroutine(function) else wrapper

    @contextmanager
    def into(self, recording: Recording) -> Iterator[None]:
        """Record what happens inside the block for this scenario.  `simulate` does this itself."""
        if self._scenario is not None:
            raise OptionError("these effects belong to a simulation that is still running: give each one its own")
        self._scenario = recording
        try:
            yield
        finally:
            self._scenario = None


class Plan(NamedTuple):
    """The accident of a scenario."""

    kind: Kind
    crash_after: int | None = None


class _Run:
    """One run of the handler.  Its threads and tasks know it, so that none has effects after its crash."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.dead = False


_current_run: ContextVar[_Run | None] = ContextVar("onward-simulated-run", default=None)


class Recording:
    """The effects of one scenario, and its one accident."""

    def __init__(self, plan: Plan, lose_the_lease: Callable[[], None]) -> None:
        self._plan = plan
        self._lose_the_lease = lose_the_lease
        self._lock = threading.Lock()
        self.effects: list[Effect] = []
        self.runs: list[_Run] = []
        self.crashed_after: Effect | None = None
        self._success_lost = False

    @contextmanager
    def run(self) -> Iterator[None]:
        """Count one run of the handler, which is called inside the block."""
        run = _Run(len(self.runs) + 1)
        self.runs.append(run)
        outside = _current_run.set(run)
        try:
            yield
        finally:
            _current_run.reset(outside)

    def happened(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._add(name, _call_text(name, args, kwargs))

    def stepped(self, name: str) -> None:
        """Count a step whose function has returned, and which is about to be noted."""
        self._add(name, f"the effect of step {name!r}")

    def _add(self, name: str, call: str) -> None:
        run = self.refuse_the_dead()
        if run is None:
            return
        with self._lock:
            effect = Effect(len(self.effects) + 1, run.number, name, call)
            self.effects.append(effect)
            if effect.number != self._plan.crash_after:
                return
            self.crashed_after = effect
            run.dead = True
        self._lose_the_lease()
        raise Crash(f"after effect {effect.number}, {effect}")

    def returned(self, value: Any) -> Any:
        """Return the handler's result; lose the lease first, if this success is to be lost."""
        if self._plan.kind == "duplicate" and not self._success_lost and not isinstance(value, Signal):
            self._success_lost = True
            self._lose_the_lease()
        return value

    def refuse_the_dead(self) -> _Run | None:
        """Raise in a run that has crashed; return the run that calls, None before the handler was started."""
        # A plain thread does not inherit the context: it counts as a part of the last run.
        run = _current_run.get() or (self.runs[-1] if self.runs else None)
        if run is not None and run.dead:
            raise Crash("this process is dead")
        return run


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", None) or type(function).__name__)


def _call_text(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    words = [text(arg) for arg in args] + [f"{key}={text(value)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(words)})"


_short = reprlib.Repr()
_short.maxstring = _short.maxlong = _short.maxother = 80
_short.maxlist = _short.maxtuple = _short.maxdict = _short.maxset = 20


def text(value: Any) -> str:
    """Show a value in a message: short, and never an error."""
    return _short.repr(value)
