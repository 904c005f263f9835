"""Events for subscribers.

Events are built only for a subscriber.  A thread of its own delivers them from a bounded queue, so a subscriber that raises,
blocks or is slow never affects a job: when it falls too far behind, events are dropped and counted.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from onward.base import forks
from onward.base.failure import kind_of, user_part
from onward.base.interruption import uninterrupted
from onward.base.logs import get_logger
from onward.errors import OptionError

__all__ = [
    "Event",
    "HealthChanged",
    "JobCancelled",
    "JobCompleted",
    "JobDeduplicated",
    "JobDiscarded",
    "JobEnqueued",
    "JobEvent",
    "JobFailed",
    "JobLeaseLost",
    "JobParked",
    "JobRescued",
    "JobSnoozed",
    "JobStarted",
    "OperatorActed",
    "QueuePaused",
    "QueueResumed",
    "ScheduleRejected",
    "Telemetry",
    "TicksMissed",
]

logger = get_logger("onward")

_BACKLOG = 10_000


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """The base of all events."""


class QueuePaused(Event, frozen=True, kw_only=True):
    queue: str


class QueueResumed(Event, frozen=True, kw_only=True):
    queue: str


class OperatorActed(Event, frozen=True, kw_only=True):
    """A person did something by hand, and said who: an entry of the audit trail."""

    who: str
    act: str
    id: str  # of the job; "": it is about none
    ref: str  # what it is about if not a job: a queue, a schedule, a flow, a limit, a larger act
    detail: str  # the reason that was given
    at: int


class HealthChanged(Event, frozen=True, kw_only=True):
    """A check has another status than a minute ago, or speaks of one queue, job or host more."""

    check: str
    status: str  # ok, warn or fail
    before: str
    detail: str
    fix: str  # what to type
    about: tuple[str, ...] = ()


class TicksMissed(Event, frozen=True, kw_only=True):
    """Ticks of a schedule had passed for so long that no job is booked for them: ``catch_up`` says how many run late."""

    schedule: str
    missed: int


class ScheduleRejected(Event, frozen=True, kw_only=True):
    """The specification of a schedule cannot be trusted, or not be read: nothing is booked for it."""

    schedule: str
    problem: str


class JobEvent(Event, frozen=True, kw_only=True):
    id: str
    job: str
    queue: str


class JobEnqueued(JobEvent, frozen=True, kw_only=True):
    pass


class JobDeduplicated(JobEvent, frozen=True, kw_only=True):
    """The job was not enqueued: the live job ``existing_id`` has its key.  Or it was skipped: its key is done."""

    existing_id: str | None


class JobStarted(JobEvent, frozen=True, kw_only=True):
    attempt: int


class JobCompleted(JobEvent, frozen=True, kw_only=True):
    attempt: int
    duration_ms: int


class JobFailed(JobEvent, frozen=True, kw_only=True):
    """An attempt failed and will be retried after ``delay`` seconds."""

    attempt: int
    duration_ms: int
    error: str
    kind: str
    delay: float


class JobDiscarded(JobEvent, frozen=True, kw_only=True):
    """The job is dead-lettered: no retry follows."""

    attempt: int
    duration_ms: int
    error: str
    kind: str
    reason: str


class JobCancelled(JobEvent, frozen=True, kw_only=True):
    reason: str | None


class JobSnoozed(JobEvent, frozen=True, kw_only=True):
    delay: float


class JobParked(JobEvent, frozen=True, kw_only=True):
    """This worker cannot run the job; another one may."""

    delay: float
    reason: str


class JobRescued(JobEvent, frozen=True, kw_only=True):
    """A dead worker's job was given back."""

    cause: str
    crashes: int


class JobLeaseLost(JobEvent, frozen=True, kw_only=True):
    """A run came to its end after its lease was lost: what it did is not recorded."""

    attempt: int


E = TypeVar("E", bound=Event)
Subscriber = Callable[[E], object]


class _Backlog(queue.Queue[Event | None]):
    """Events that wait for their subscribers.  A signal handler that interrupts its own thread in here may add to them."""

    def __init__(self) -> None:
        super().__init__(_BACKLOG)
        self.mutex = threading.RLock()  # type: ignore[assignment]
        self.not_empty, self.not_full, self.all_tasks_done = (threading.Condition(self.mutex) for _ in range(3))


class Telemetry:
    """Hands events to subscribers, on a thread of its own."""

    def __init__(self) -> None:
        self._subscribers: dict[type[Event], list[Callable[[Any], object]]] = {}
        self._heard: dict[type[Event], tuple[Callable[[Any], object], ...]] = {}
        self.dropped: int = 0
        self._complaints: Counter[str] = Counter()
        self._begin_anew()
        forks.call_in_child(self._begin_anew)

    def _begin_anew(self) -> None:
        """Forget the events on their way: after a fork they are the parent's to tell."""
        self._queue = _Backlog()
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()

    def on(self, kind: type[E], subscriber: Subscriber[E]) -> None:
        """Call ``subscriber`` with every event of this kind, or of a kind below it."""
        if not (isinstance(kind, type) and issubclass(kind, Event)):
            raise OptionError(f"{kind!r} is not an event: events are the classes of onward.telemetry")
        with self._lock:
            self._subscribers.setdefault(kind, []).append(subscriber)
            self._heard = {}

    def wants(self, kind: type[Event]) -> bool:
        """Return whether a subscriber would get such an event."""
        return bool(self._subscribers) and bool(self._listeners(kind))

    def emit(self, event: Event) -> None:
        if not self._listeners(type(event)):
            return
        try:
            with uninterrupted():  # a handler's time-out must not interrupt code that holds the queue's lock
                self._ensure_thread()
                self._queue.put_nowait(event)
        except queue.Full:
            self._drop(f"event subscribers are {_BACKLOG} events behind: events are dropped until they catch up")
        except RuntimeError as error:
            self._drop(f"events are dropped: no thread can be started to deliver them ({error})")

    def _drop(self, why: str) -> None:
        self.dropped += 1
        if self._complaints["dropped"] == 0:
            self._complaints["dropped"] = 1
            logger.warning(why)

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until every event emitted so far was delivered.  False if that took longer than ``timeout``."""
        deadline = time.monotonic() + timeout
        with self._queue.all_tasks_done:
            while self._queue.unfinished_tasks:
                left = deadline - time.monotonic()
                if left <= 0 or self._thread is None:
                    return False
                self._queue.all_tasks_done.wait(left)
        return True

    def close(self, timeout: float = 5.0) -> None:
        """Deliver the events in the queue, then stop."""
        if self._thread is not None:
            self.flush(timeout)
            try:
                self._queue.put_nowait(None)
            except queue.Full:
                return  # a subscriber hangs; the thread is a daemon and does not keep the process

    def _listeners(self, kind: type[Event]) -> tuple[Callable[[Any], object], ...]:
        heard = self._heard.get(kind)
        if heard is None:
            heard = tuple(
                subscriber
                for each, subscribers in self._subscribers.items()
                if issubclass(kind, each)
                for subscriber in subscribers
            )
            self._heard[kind] = heard
        return heard

    def _ensure_thread(self) -> None:
        thread = self._thread
        if thread is not None and thread.is_alive():
            return
        with self._lock:
            if self._thread is None or not self._thread.is_alive():  # dead: stopped, or this is a fork
                self._thread = threading.Thread(target=self._deliver, name="onward-events", daemon=True)
                self._thread.start()

    def _deliver(self) -> None:
        while (event := self._queue.get()) is not None:
            for subscriber in self._listeners(type(event)):
                try:
                    subscriber(event)
                except BaseException as error:  # noqa: BLE001  jobs and other subscribers go on
                    self._complain(subscriber, error)
            self._queue.task_done()
        self._queue.task_done()

    def _complain(self, subscriber: Callable[[Any], object], error: BaseException) -> None:
        """Log the first error of a subscriber, and no later one."""
        name = _name_of(subscriber)
        self._complaints[name] += 1
        if self._complaints[name] == 1:
            told = error.with_traceback(user_part(error.__traceback__))
            logger.error("event subscriber %s raised; further errors of it are not logged", name, exc_info=told)


def _name_of(subscriber: Callable[[Any], object]) -> str:
    try:
        return str(getattr(subscriber, "__qualname__", None) or repr(subscriber))
    except BaseException:  # noqa: BLE001  an object that is called may answer with anything
        return kind_of(subscriber)
