"""What a job is, apart from any application, store or call: a plain immutable value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec

from onward.base import names
from onward.base.durations import Duration, instant, seconds
from onward.base.wording import a, counted
from onward.errors import OptionError
from onward.job.envelope import Isolation, UniqueStrategy
from onward.job.other_words import OPTIONS
from onward.job.retry import RetryPolicy, travels
from onward.job.retry_config import PolicyLike, read_policy

__all__ = [
    "EnqueueOptions",
    "JobDefinition",
    "JobOptions",
    "UsingOptions",
    "checked_meta",
    "define",
    "refused_as_argument",
]

_STRATEGIES = ("ignore_new", "cancel_existing")
_OURS = "onward."  # how keys of meta begin that a program may not use

ExceptionTypes = type[BaseException] | tuple[type[BaseException], ...]


class SharedOptions(TypedDict, total=False):
    """Options that may be given both where a job is defined and where it is enqueued."""

    queue: str
    """The queue that it waits in; `default` if none is named."""
    priority: int
    """From -100 to 100; higher runs sooner, within its queue. 0 by default."""
    max_retries: int
    """How often it is retried after a failure: n retries are n + 1 runs. Else the setting `default_max_retries`, 0."""
    max_attempts: int
    """The same counted in runs: `max_attempts=3` is `max_retries=2`."""
    retry: PolicyLike | None
    """How long to wait before a retry: a policy such as `Exponential(base=5)`, its name, or a table. Else that of the
    queue, then that of the application."""
    timeout: Duration | None
    """How long one run may take; then it is interrupted, and fails. None by default: as long as it likes."""
    single_instance: bool
    """Whether at most one job of this name runs at any time, in the whole fleet; the others wait and lose no attempt."""
    expires: Duration | datetime | None
    """When it is no longer worth beginning: after so long, or at that instant, it is cancelled instead of run."""
    meta: Mapping[str, Any]
    """Plain data that travels with the job beside its arguments: `ctx.meta`."""


class JobOptions(SharedOptions, total=False):
    """What `@jobs.job(...)` takes."""

    name: str
    """What it is called in the store; else the function's name."""
    aliases: tuple[str, ...] | list[str]
    """Names that it had before: jobs that were enqueued under these still find it."""
    retry_on: ExceptionTypes | None
    """The exceptions that are retried; every other makes it a dead letter at once. None by default: all are retried."""
    discard_on: ExceptionTypes
    """Exceptions that make it a dead letter at once, whatever its budget."""
    max_crashes: int
    """How often its process may die under it before it becomes a dead letter. Else the setting `max_crashes`, which is 3."""
    isolation: Isolation
    """`"process"`: every run has a process of its own, which is killed at its time-out. `"thread"` by default."""
    max_memory: int
    """Bytes that such a process may use; with `isolation="process"` only."""
    interrupt: bool
    """Whether a sync run is interrupted at its time-out and when it is cancelled, by an exception at the next line of
    Python. True by default; where that would harm, `False` leaves it to `ctx.deadline` and `ctx.cancelled`."""
    unique_key: str | Callable[..., str]
    """The key of a call, by which one live job stands for all: a template of the arguments such as `"welcome:{user_id}"`,
    or a function of those that it names."""
    unique_strategy: UniqueStrategy
    """If another job holds the key: `"ignore_new"` returns its handle, `"cancel_existing"` replaces it."""
    limit: Any
    """How many may run at once or start in a while, in the whole fleet: a `Limit`, or a tuple of one for all calls and one
    `by` a parameter."""
    breaker: Any
    """A `Breaker`: when too many of its last runs have failed, it is not started for a while, in the whole fleet."""


class UsingOptions(SharedOptions, total=False):
    """What `job.using(...)` takes."""

    delay: Duration
    """How long to wait before it is due."""
    at: datetime
    """When it is due, as an aware datetime; instead of `delay`."""
    unique_key: str | None
    """One live job per key. None: no key, even if the definition has one."""
    unique_strategy: UniqueStrategy
    """If another job holds the key: `"ignore_new"` returns its handle, `"cancel_existing"` replaces it."""
    idempotency_key: str
    """The work of one key is done once: a job whose key is done is completed without a run."""
    idempotency_ttl: Duration | None
    """How long a done key is remembered. Else the setting `idempotency_ttl`, a day."""
    lane: str | None
    """The key by which calls take turns and are limited, for jobs whose arguments do not name it."""
    key_scope: Literal["job", "global"]
    """`"job"`: keys belong to the job's name, as they do by default. `"global"`: to all jobs."""


class EnqueueOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one call, checked.  Lengths are seconds, instants microseconds; None leaves it to the definition."""

    queue: str | None = None
    priority: int | None = None
    max_retries: int | None = None
    retry: RetryPolicy | None = None
    timeout: float | None = None
    single_instance: bool | None = None
    expires_in: float | None = None
    expires_at: int | None = None
    meta: Mapping[str, Any] = msgspec.field(default_factory=dict)
    delay: float = 0
    at: int | None = None
    unique_key: str | None = None  # empty: no key, even if the definition has one
    unique_strategy: UniqueStrategy | None = None
    idempotency_key: str | None = None
    idempotency_ttl: float | None = None  # None: as the application's settings say
    key_scope: Literal["job", "global"] = "job"
    lane: str | None = None

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> EnqueueOptions:
        """Check the options of `using`.  A typo or a contradiction raises here, and not later in the worker."""
        _refuse_unknown(options, UsingOptions, "using()")
        if "delay" in options and "at" in options:
            raise OptionError("give delay or at, not both")
        checked = _shared(options)
        if "retry" in checked and not travels(checked["retry"]):
            kind = type(checked["retry"]).__name__
            raise OptionError(f"{a(kind)} policy is code and cannot travel with a job: give it to @jobs.job(retry=…)")
        if "delay" in options:
            checked["delay"] = seconds(options["delay"], "delay")
        if "at" in options:
            checked["at"] = instant(options["at"], "at")
        if "unique_key" in options:
            checked["unique_key"] = (
                "" if options["unique_key"] is None else names.key(options["unique_key"], "unique_key")
            )
        if "idempotency_key" in options:
            checked["idempotency_key"] = names.key(options["idempotency_key"], "idempotency_key")
        if options.get("idempotency_ttl") is not None:
            checked["idempotency_ttl"] = seconds(options["idempotency_ttl"], "idempotency_ttl")
        checked |= {name: read(options[name]) for name, read in _USING_READERS.items() if options.get(name) is not None}
        return cls(**checked)


class JobDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A registered handler with its options; or, made by the builder, a handler's key with the payload to give it."""

    name: str
    handler: str  # the key it is registered under; a decorated job's is its name
    queue: str = "default"
    priority: int = 0
    max_retries: int | None = None  # None: the application's default
    retry: RetryPolicy | None = None  # None: the queue's policy, then the application's default
    timeout: float | None = None
    single_instance: bool = False
    expires_in: float | None = None
    expires_at: int | None = None
    meta: Mapping[str, Any] = msgspec.field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    retry_on: tuple[type[BaseException], ...] | None = None
    discard_on: tuple[type[BaseException], ...] = ()
    max_crashes: int | None = None
    isolation: Isolation = "thread"
    max_memory: int | None = None  # bytes of data, with isolation="process"
    interrupt: bool = True
    unique_key: str | Callable[..., str] | None = None
    unique_strategy: UniqueStrategy = "ignore_new"
    limit: Any = None  # checked with the parameters, by `onward.client.laning`; so is the next
    breaker: Any = None
    payload: Any = None


def define(handler: str, options: Mapping[str, Any]) -> JobDefinition:
    """Check the options of `@jobs.job(...)`, and return the definition."""
    _refuse_unknown(options, JobOptions, "job()")
    checked = _shared(options)
    name = names.job_name(options.get("name", handler))
    aliases = options.get("aliases", ())
    if not isinstance(aliases, tuple | list):
        raise OptionError(f"aliases must be a tuple of names, not {aliases!r:.60}")
    if "retry_on" in options and options["retry_on"] is not None:
        checked["retry_on"] = _exceptions(options["retry_on"], "retry_on")
    if "discard_on" in options:
        checked["discard_on"] = _exceptions(options["discard_on"], "discard_on")
    if "max_crashes" in options:
        checked["max_crashes"] = _whole(options["max_crashes"], 1, 1000, "max_crashes")
    for option, allowed in (("isolation", ("thread", "process")), ("unique_strategy", _STRATEGIES)):
        if option in options:
            checked[option] = _one_of(options[option], allowed, option)
    if "max_memory" in options:
        checked["max_memory"] = _whole(options["max_memory"], 1 << 20, 1 << 50, "max_memory")
        if options.get("isolation") != "process":
            raise OptionError('max_memory limits a process: it needs isolation="process"')
    if "interrupt" in options:
        checked["interrupt"] = _flag(options["interrupt"], "interrupt")
    checked["limit"], checked["breaker"] = options.get("limit"), options.get("breaker")
    checked["unique_key"] = options.get("unique_key")  # it is checked with the parameters, by `onward.job.unique_key`
    return JobDefinition(name=name, handler=name, aliases=tuple(map(names.job_name, aliases)), **checked)


def _shared(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked options that definitions and calls share."""
    checked = {name: read(options[name]) for name, read in _READERS.items() if options.get(name) is not None}
    if "max_retries" in options or "max_attempts" in options:
        checked["max_retries"] = _budget(options)
    expires = options.get("expires")
    if isinstance(expires, datetime):
        checked["expires_at"] = instant(expires, "expires")
    elif expires is not None:
        checked["expires_in"] = seconds(expires, "expires")
    return checked


def checked_meta(value: Any, what: str = "meta") -> dict[str, Any]:
    """Return a copy of what travels beside a job's arguments; refuse what would come back as something else."""
    if not isinstance(value, Mapping):
        raise OptionError(f"{what} must be a mapping of text to plain values, not {value!r:.60}")
    try:
        copy: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(dict(value)))
    except (TypeError, ValueError, RecursionError) as error:
        raise OptionError(f"{what} must hold plain values: {error}") from None
    if copy != value:
        raise OptionError(f"{what} must hold plain values: {value!r:.60} would come back as {copy!r:.60}")
    ours = next((key for key in copy if key.startswith(_OURS)), None)
    if ours is not None:
        raise OptionError(
            f"{what} has the key {ours!r:.60}: keys that begin with {_OURS!r} are Onward's own, choose another"
        )
    return copy


_READERS: dict[str, Callable[[Any], Any]] = {
    "queue": names.queue_name,
    "priority": lambda value: _whole(value, -100, 100, "priority"),
    "retry": lambda value: read_policy(value, "retry"),
    "timeout": lambda value: seconds(value, "timeout"),
    "single_instance": lambda value: _flag(value, "single_instance"),
    "meta": checked_meta,
}


_USING_READERS: dict[str, Callable[[Any], Any]] = {
    "unique_strategy": lambda value: _one_of(value, _STRATEGIES, "unique_strategy"),
    "key_scope": lambda value: _one_of(value, ("job", "global"), "key_scope"),
    "lane": lambda value: names.key(value, "lane", longest=200),
}


def _budget(options: Mapping[str, Any]) -> int:
    retries = _whole(options["max_retries"], 0, 1_000_000, "max_retries") if "max_retries" in options else None
    if "max_attempts" not in options:
        assert retries is not None
        return retries
    attempts = _whole(options["max_attempts"], 1, 1_000_001, "max_attempts")
    if retries is not None and retries + 1 != attempts:
        raise OptionError(
            f"max_retries={retries} allows {counted(retries + 1, 'run')} and max_attempts={attempts} another number: "
            f"give one"
        )
    return attempts - 1


def _whole(value: Any, low: int, high: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise OptionError(f"{what} must be a whole number from {low} to {high:,}, not {value!r:.60}")
    return value


def _flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise OptionError(f"{what} must be True or False, not {value!r:.60}")
    return value


def _one_of(value: Any, allowed: tuple[str, ...], what: str) -> str:
    if value not in allowed:
        raise OptionError(f"{what} must be one of {', '.join(allowed)}, not {value!r:.60}")
    return str(value)


def _exceptions(value: Any, what: str) -> tuple[type[BaseException], ...]:
    kinds = value if isinstance(value, tuple | list) else (value,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise OptionError(f"{what} must be an exception class or a tuple of them, not {value!r:.60}")
    return tuple(kinds)


def _refuse_unknown(options: Mapping[str, Any], known: Any, where: str) -> None:
    allowed = known.__annotations__.keys() | SharedOptions.__annotations__.keys()
    for option in options:
        if option not in allowed:
            raise OptionError(f"{where} has no option {option!r}{_meant(option, allowed)}")


def _meant(option: str, allowed: Collection[str]) -> str:
    ours = OPTIONS.get(option, option)
    if ours in allowed:
        return f": here it is called {ours!r}"
    if ours in UsingOptions.__annotations__:
        return f": give {ours!r} where a job is enqueued, f.using({ours}=…).enqueue(…)"
    if ours in JobOptions.__annotations__:
        return f": give {ours!r} where a job is defined, @jobs.job({ours}=…)"
    return names.suggestion(option, allowed)


def refused_as_argument(job: str, option: str) -> str | None:
    """Return the error text for an option that was given among the arguments of a call; None if it is no option."""
    ours = OPTIONS.get(option, option)
    if ours not in UsingOptions.__annotations__ and ours not in SharedOptions.__annotations__:
        return None
    return f"{job}() has no parameter {option!r}, which is an option: write {job}.using({ours}=…).enqueue(…)"
