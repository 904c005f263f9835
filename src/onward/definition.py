"""What a job is, apart from any application, store or call: a plain immutable value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec

from onward import names
from onward.durations import Duration, instant, seconds
from onward.envelope import Isolation, UniqueStrategy
from onward.errors import OptionError
from onward.other_words import OPTIONS
from onward.retry import PortablePolicy, RetryPolicy

__all__ = ["EnqueueOptions", "JobDefinition", "JobOptions", "UsingOptions", "define", "refused_as_argument"]

ExceptionTypes = type[BaseException] | tuple[type[BaseException], ...]


class SharedOptions(TypedDict, total=False):
    """What may be said both where a job is defined and where it is enqueued."""

    queue: str
    priority: int
    max_retries: int
    max_attempts: int
    retry: RetryPolicy | None
    timeout: Duration | None
    single_instance: bool
    expires: Duration | datetime | None
    meta: Mapping[str, Any]


class JobOptions(SharedOptions, total=False):
    """What `@jobs.job(...)` takes."""

    name: str
    aliases: tuple[str, ...] | list[str]
    retry_on: ExceptionTypes | None
    discard_on: ExceptionTypes
    max_crashes: int
    isolation: Isolation
    max_memory: int
    interrupt: bool


class UsingOptions(SharedOptions, total=False):
    """What `job.using(...)` takes."""

    delay: Duration
    at: datetime
    unique_key: str
    unique_strategy: UniqueStrategy
    idempotency_key: str
    idempotency_ttl: Duration
    key_scope: Literal["job", "global"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueOptions:
    """Options of one call, checked.  Lengths are seconds, instants microseconds; None leaves it to the definition."""

    queue: str | None = None
    priority: int | None = None
    max_retries: int | None = None
    retry: RetryPolicy | None = None
    timeout: float | None = None
    single_instance: bool | None = None
    expires_in: float | None = None
    expires_at: int | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    delay: float = 0
    at: int | None = None
    unique_key: str | None = None
    unique_strategy: UniqueStrategy = "ignore_new"
    idempotency_key: str | None = None
    idempotency_ttl: float | None = None
    key_scope: Literal["job", "global"] = "job"

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> EnqueueOptions:
        """Read what `using` was given.  A typo or a contradiction is an error here, not a surprise in the worker."""
        _refuse_unknown(options, UsingOptions, "using()")
        if "delay" in options and "at" in options:
            raise OptionError("give delay or at, not both")
        checked = _shared(options)
        if not isinstance(checked.get("retry"), PortablePolicy | None):
            kind = type(checked["retry"]).__name__
            raise OptionError(f"a {kind} policy is code and cannot travel with a job: give it to @jobs.job(retry=…)")
        if "delay" in options:
            checked["delay"] = seconds(options["delay"], "delay")
        if "at" in options:
            checked["at"] = instant(options["at"], "at")
        for key in ("unique_key", "idempotency_key"):
            if key in options:
                checked[key] = names.key(options[key], key)
        if "idempotency_ttl" in options:
            checked["idempotency_ttl"] = seconds(options["idempotency_ttl"], "idempotency_ttl")
        for key, allowed in (("unique_strategy", ("ignore_new", "cancel_existing")), ("key_scope", ("job", "global"))):
            if key in options:
                checked[key] = _one_of(options[key], allowed, key)
        return cls(**checked)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDefinition:
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
    meta: Mapping[str, Any] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    retry_on: tuple[type[BaseException], ...] | None = None
    discard_on: tuple[type[BaseException], ...] = ()
    max_crashes: int | None = None
    isolation: Isolation = "thread"
    max_memory: int | None = None  # bytes of data, with isolation="process"
    interrupt: bool = True
    payload: Any = None


def define(handler: str, options: Mapping[str, Any]) -> JobDefinition:
    """Read what `@jobs.job(...)` was given."""
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
    if "isolation" in options:
        checked["isolation"] = _one_of(options["isolation"], ("thread", "process"), "isolation")
    if "max_memory" in options:
        checked["max_memory"] = _whole(options["max_memory"], 1 << 20, 1 << 50, "max_memory")
        if options.get("isolation") != "process":
            raise OptionError('max_memory limits a process: it needs isolation="process"')
    if "interrupt" in options:
        checked["interrupt"] = _flag(options["interrupt"], "interrupt")
    return JobDefinition(name=name, handler=name, aliases=tuple(map(names.job_name, aliases)), **checked)


def _shared(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that both places know."""
    checked = {name: read(options[name]) for name, read in _READERS.items() if options.get(name) is not None}
    if "max_retries" in options or "max_attempts" in options:
        checked["max_retries"] = _budget(options)
    expires = options.get("expires")
    if isinstance(expires, datetime):
        checked["expires_at"] = instant(expires, "expires")
    elif expires is not None:
        checked["expires_in"] = seconds(expires, "expires")
    return checked


def _policy(value: Any) -> RetryPolicy:
    if not isinstance(value, RetryPolicy):
        raise OptionError(f"retry must be a policy such as Exponential(base=5), not {value!r:.60}")
    return value


def _meta(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise OptionError(f"meta must be a mapping of text to plain values, not {value!r:.60}")
    try:
        copy: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(dict(value)))
    except (TypeError, ValueError, RecursionError) as error:
        raise OptionError(f"meta must hold plain values: {error}") from None
    if copy != value:
        raise OptionError(f"meta must hold plain values: {value!r:.60} would come back as {copy!r:.60}")
    return copy


_READERS: dict[str, Callable[[Any], Any]] = {
    "queue": names.queue_name,
    "priority": lambda value: _whole(value, -100, 100, "priority"),
    "retry": _policy,
    "timeout": lambda value: seconds(value, "timeout"),
    "single_instance": lambda value: _flag(value, "single_instance"),
    "meta": _meta,
}


def _budget(options: Mapping[str, Any]) -> int:
    retries = _whole(options["max_retries"], 0, 1_000_000, "max_retries") if "max_retries" in options else None
    if "max_attempts" not in options:
        assert retries is not None
        return retries
    attempts = _whole(options["max_attempts"], 1, 1_000_001, "max_attempts")
    if retries is not None and retries + 1 != attempts:
        raise OptionError(
            f"max_retries={retries} allows {retries + 1} runs and max_attempts={attempts} another number: give one"
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
        return f": {ours!r} is said where a job is enqueued, f.using({ours}=…).enqueue(…)"
    if ours in JobOptions.__annotations__:
        return f": {ours!r} is said where a job is defined, @jobs.job({ours}=…)"
    return names.suggestion(option, allowed)


def refused_as_argument(job: str, option: str) -> str | None:
    """What to say of an option that was given among the arguments of a call; None if it is no option."""
    ours = OPTIONS.get(option, option)
    if ours not in UsingOptions.__annotations__ and ours not in SharedOptions.__annotations__:
        return None
    return f"{job}() has no parameter {option!r}, which is an option: write {job}.using({ours}=…).enqueue(…)"
