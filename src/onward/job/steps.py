"""What ``ctx.step``, ``ctx.sleep`` and ``ctx.wait_for`` do: look for a note of an earlier run, else act and write one.

    ctx.step       found: return the value that is noted.  Else call the function, and note what it returned.
    ctx.sleep      found, and over: go on.  Else suspend the run until it is over.
    ctx.wait_for   heard: return the signal's value.  Over: return None.  Else suspend the run until either is true.

A note is stored under a kind and a name.  When a sleep or a wait is over is told by the store's clock alone: the note says
how long, the store when it was written, and the lease when the job was claimed.

Notes are read once in a run, at the first question, and not at all in the first delivery of a job, which has none; only a
wait looks every time, for a signal may have come.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, NamedTuple, NoReturn, Protocol

import msgspec

from onward.base.clock import SECOND
from onward.base.durations import Duration, seconds
from onward.base.failure import kind_of
from onward.base.lazy import asyncio
from onward.errors import InvalidName, JobSuspended, NotesFull, OptionError, StepError
from onward.job.arguments import decode_result, encode_result, read_as
from onward.job.registry import returns_of

__all__ = [
    "LARGEST_NOTE",
    "MOST_NOTES",
    "MOST_NOTE_BYTES",
    "SIGNAL",
    "SLEEP",
    "STEP",
    "WAIT",
    "Notebook",
    "Noted",
    "Steps",
    "note_name",
    "within_limit",
]

LARGEST_NOTE = 64 * 1024
MOST_NOTES = 1000
MOST_NOTE_BYTES = 4 << 20

STEP, SLEEP, WAIT, SIGNAL = "=", "~", "~!", "!"  # how the name of a note begins
_WORDS = {STEP: "step", SLEEP: "sleep", WAIT: "wait_for"}
_LONGEST_NAME = 200
_SHORTEST = 1.0  # seconds: a job that comes back at once could spin

_inside: ContextVar[Steps | None] = ContextVar("onward-step", default=None)


class Noted(NamedTuple):
    """A note as it is stored: its sealed value, and when the store wrote it."""

    sealed: bytes
    at: int


class Notebook(Protocol):
    """The notes of one job, for one run.  All of it may take as long as the store does."""

    def read(self) -> dict[str, Noted]: ...

    def open(self, name: str, sealed: bytes) -> bytes:
        """Return the value; raise `NoteRejected` if it is not what a worker or signaller sealed."""
        ...

    def seal(self, name: str, value: bytes) -> bytes: ...

    def write(self, name: str, sealed: bytes) -> None:
        """Store a note; raise `LeaseLost` if this run may not write any more."""
        ...


class Steps:
    """The steps, sleeps and waits of one run."""

    def __init__(self, notebook: Notebook, *, first: bool, now: Callable[[], int]) -> None:
        """``first``: whether the job was never delivered before.  ``now``: the store's time, as far as it is known."""
        self._notebook = notebook
        self._now = now
        self._notes: dict[str, Noted] | None = {} if first else None
        self._used: set[str] = set()
        self._naming, self._reading = threading.Lock(), threading.Lock()
        self._suspended: JobSuspended | None = None
        self._running: set[asyncio.Future[None]] = set()  # steps of an async handler, until they are noted
        self.pending: set[str] = set()  # calls of an async handler that were not awaited yet

    # In a handler that is a plain function

    def step(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        key = self._enter(STEP, name)
        found = self._look(key)
        if found is None:
            self._refuse_if_full()
            with self._inside_step():
                value = function(*args, **kwargs)
                if inspect.isawaitable(value):
                    value = _run(value)
            found = self._store(key, self._encoded(name, value))
        return self._value(key, found, _returns(function))

    def sleep(self, name: str, duration: Duration | None) -> None:
        length = self._length(duration)
        key = self._enter(SLEEP, name)
        self._rest(key, length, self._look(key))

    def wait_for(self, name: str, timeout: Duration, returns: Any) -> Any:
        length = max(_SHORTEST, seconds(timeout, "timeout"))
        return self._heard(self._enter(WAIT, name), name, length, returns)

    # In an async handler: what talks to the store does so in a thread

    async def step_async(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        key = self._enter(STEP, name)
        found = await self._look_async(key)
        if found is None:
            self._refuse_if_full()
            with self._unsuspended():
                with self._inside_step():
                    value = function(*args, **kwargs)
                    if inspect.isawaitable(value):
                        value = await value
                found = await asyncio.to_thread(self._store, key, self._encoded(name, value))
        return self._value(key, found, _returns(function))

    async def sleep_async(self, name: str, duration: Duration | None) -> None:
        length = self._length(duration)
        key = self._enter(SLEEP, name)
        mark = await self._look_async(key)
        try:
            self._rest(key, length, mark)
        except JobSuspended:
            await self._steps_ended()
            raise

    async def wait_for_async(self, name: str, longest: Duration, returns: Any) -> Any:
        length = max(_SHORTEST, seconds(longest, "timeout"))
        key = self._enter(WAIT, name)
        try:
            return await asyncio.to_thread(self._heard, key, name, length, returns)
        except JobSuspended:
            await self._steps_ended()
            raise

    @contextmanager
    def _unsuspended(self) -> Iterator[None]:
        """Let no sleep or wait beside it end the run before this step is noted: it would be called again."""
        if self._suspended is not None:  # while notes were read
            raise self._suspended
        ended = asyncio.get_running_loop().create_future()
        self._running.add(ended)
        try:
            yield
        finally:
            self._running.discard(ended)
            ended.set_result(None)

    async def _steps_ended(self) -> None:
        while self._running:
            await asyncio.wait(self._running)

    def left_open(self) -> StepError | None:
        """Return what is wrong with a run that returned: it was to be suspended, or a call was never awaited."""
        if self._suspended is not None:
            return StepError(
                "the handler caught the exception by which ctx.sleep and ctx.wait_for suspend a run, and went on: catch "
                "Exception instead of BaseException, or raise it again"
            )
        if self.pending:
            return StepError(f"{min(self.pending)} was called and not awaited: write `await` before it")
        return None

    # Both

    def _enter(self, kind: str, name: str) -> str:
        call = f"ctx.{_WORDS[kind]}({name!r:.60})"
        key = kind + note_name(name, call)
        if _inside.get() is self:
            raise StepError(
                f"{call} was called inside a step, whose result is all that is noted of it: call it in the handler, after "
                f"that step or before it"
            )
        if self._suspended is not None:
            raise self._suspended  # a run that is being suspended does nothing more
        with self._naming:
            if key in self._used:
                raise StepError(f"{call} was called twice in one run: in a loop, number the names: f'page-{{n}}'")
            self._used.add(key)
        return key

    def _look(self, key: str) -> Noted | None:
        notes = self._notes
        if notes is None:
            with self._reading:  # steps of a handler's own threads, or tasks
                notes = self._notes = self._notebook.read() if self._notes is None else self._notes
        return notes.get(key)

    async def _look_async(self, key: str) -> Noted | None:
        return self._look(key) if self._notes is not None else await asyncio.to_thread(self._look, key)

    def _store(self, key: str, encoded: bytes) -> Noted:
        assert self._notes is not None
        sealed = self._notebook.seal(key, encoded)
        self._refuse_if_full(len(sealed))
        self._notebook.write(key, sealed)
        noted = self._notes[key] = Noted(sealed, self._now())
        return noted

    def _refuse_if_full(self, size: int = 0) -> None:
        """Raise if there is no room for one more note; before a step is called, its size is not known yet."""
        kept = [*(self._notes or {}).values()]
        if len(kept) >= MOST_NOTES or sum(len(note.sealed) for note in kept) + size > MOST_NOTE_BYTES:
            raise NotesFull(
                f"a job has at most {MOST_NOTES:,} notes of {MOST_NOTE_BYTES:,} bytes in all: put several things into one "
                f"step, keep the data elsewhere and return where it is, or go on in another job"
            )

    def _value(self, key: str, noted: Noted, kind: Any) -> Any:
        return decode_result(self._notebook.open(key, noted.sealed), kind)

    def _encoded(self, name: str, value: Any) -> bytes:
        try:
            encoded = encode_result(value)
        except Exception as error:
            raise StepError(
                f"the result of step {name!r} cannot be noted ({kind_of(error)}: {error}): return plain data, or a "
                f"reference to it; the step will be called again"
            ) from error
        return within_limit(encoded, f"the result of step {name!r}")

    def _length(self, duration: Duration | None) -> float:
        if duration is None:
            raise OptionError(
                "ctx.sleep has a name, by which a later run knows that it is over: ctx.sleep('cool-off', '1h'); to begin "
                "anew later, raise Snooze('1h')"
            )
        return max(_SHORTEST, seconds(duration, "duration"))

    def _rest(self, key: str, length: float, mark: Noted | None) -> None:
        if mark is None:
            self._suspend(length, None, ((key, self._marked(key, length)),))
        elif (left := self._ends(key, mark) - self._now()) > 0:
            self._suspend(left / SECOND, None, ())

    def _heard(self, key: str, name: str, length: float, returns: Any) -> Any:
        signal, notes = SIGNAL + name, self._notes
        if notes is None or signal not in notes:
            notes = self._notes = {**self._notebook.read(), **(notes or {})}  # it may have come meanwhile
        mark, heard = notes.get(key), notes.get(signal)
        ends = None if mark is None else self._ends(key, mark)
        if heard is not None and (ends is None or heard.at < ends):
            return _fitting(name, self._notebook.open(signal, heard.sealed), returns)
        if ends is None:
            self._suspend(length, name, ((key, self._marked(key, length)),))
        elif (left := ends - self._now()) > 0:
            self._suspend(left / SECOND, name, ())
        return None

    def _marked(self, key: str, length: float) -> bytes:
        sealed = self._notebook.seal(key, b"%d" % round(length * SECOND))
        self._refuse_if_full(len(sealed))
        return sealed

    def _ends(self, key: str, mark: Noted) -> int:
        """Return when a sleep or a wait is over: so long after the store noted it."""
        return mark.at + int(self._notebook.open(key, mark.sealed))

    def _suspend(self, delay: float, awaits: str | None, notes: tuple[tuple[str, bytes], ...]) -> NoReturn:
        self._suspended = JobSuspended(max(_SHORTEST, delay), awaits, notes)
        raise self._suspended

    @contextmanager
    def _inside_step(self) -> Iterator[None]:
        token = _inside.set(self)
        try:
            yield
        finally:
            _inside.reset(token)


def note_name(name: str, call: str) -> str:
    """Return the name of a step, a sleep or a signal, if every store can keep it."""
    if not isinstance(name, str):
        raise InvalidName(f"{call}: a name is text, not {type(name).__name__}")
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable() or name[0] in "=~!":
        raise InvalidName(
            f"{call}: a name has 1 to {_LONGEST_NAME} printable characters, the first of which is none of = ~ !"
        )
    return name


def within_limit(encoded: bytes, what: str) -> bytes:
    if len(encoded) > LARGEST_NOTE:
        raise NotesFull(
            f"{what} takes {len(encoded):,} bytes and the limit is {LARGEST_NOTE:,}: keep it elsewhere, and pass where it is"
        )
    return encoded


def _fitting(name: str, value: bytes, returns: Any) -> Any:
    data = msgspec.json.decode(value)
    if returns is Any:
        return data
    try:
        return read_as(returns, data)
    except (TypeError, ValueError) as error:
        raise StepError(f"the signal {name!r} does not bring what `returns` says: {error}") from None


def _returns(function: Callable[..., Any]) -> Any:
    """Return what a step's function says it returns; anything may be one."""
    try:
        return returns_of(function)
    except Exception:  # noqa: BLE001  an object that can be called need not have any annotations
        return Any


def _run(value: Awaitable[Any]) -> Any:
    """Await what a step of a plain handler returned: in another thread if an event loop runs in this one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_awaited(value))
    with ThreadPoolExecutor(1, thread_name_prefix="onward-step") as thread:
        return thread.submit(copy_context().run, asyncio.run, _awaited(value)).result()


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value
