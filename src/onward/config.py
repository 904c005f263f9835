"""Settings and their sources: defaults < configuration file < environment < arguments < the command line.

The file is the nearest ``onward.toml``, or ``pyproject.toml`` with a ``[tool.onward]`` table, from the working directory
upwards.  The environment has ``ONWARD_URL``, ``ONWARD_NAMESPACE`` and so on; a variable ``ONWARD_…`` that is no setting is
logged, once.  A configuration file has no keys: it names the file that holds them, as the environment can too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict, TypeVar

from onward.base import config_file, names
from onward.base.durations import Duration, seconds
from onward.base.logs import get_logger
from onward.errors import OptionError
from onward.job.retry import RetryPolicy, travels
from onward.job.retry_config import PolicyLike, read_policy, worded
from onward.job.states import FINISHED, State
from onward.security.key_ring import MODES, KeyRing, KeySource, Mode

__all__ = [
    "Origin",
    "Settings",
    "SettingsOptions",
    "explain",
    "load",
    "overruled",
    "to_environment",
    "unknown_variables",
]

logger = get_logger("onward")

T = TypeVar("T")

_KEY_FILE = "signing_keys_file"  # in a file and in the environment: where the keys are
_NOT_IN_ENVIRONMENT = ("retention", "queue_retry", "queue_late_after")  # tables, which one variable cannot carry
# Variables that Kubernetes and container links set for a service whose name begins with `onward`.
_OF_A_SERVICE = re.compile(
    r"ONWARD_(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?|NAME|ENV_\w+)"
)
# Who acts on the command line; what opens the dashboard; which of Celery's tasks are Onward's.
_OF_COMMANDS = {"ONWARD_BY", "ONWARD_WEB_TOKEN", "ONWARD_CELERY_TASKS"}
_told: set[str] = set()  # variables that this process has logged

_command_line: ContextVar[Mapping[str, Any]] = ContextVar("_command_line", default=MappingProxyType({}))


class SettingsOptions(TypedDict, total=False):
    """The settings as keywords of `Onward(...)`; lengths of time in any form of a `Duration`."""

    store: str | None
    namespace: str
    environment: str | None
    max_crashes: int
    default_max_retries: int
    default_retry: PolicyLike | None
    queue_retry: Mapping[str, PolicyLike]
    dead_letter_queue: str | None
    drop_on_dlq_failure: bool
    unknown_grace: Duration
    max_payload: int
    lease_for: Duration
    transaction_timeout: Duration
    idempotency_ttl: Duration
    enqueue_timeout: Duration
    metrics: bool
    late_after: Duration
    queue_late_after: Mapping[str, Duration]
    signing_keys: KeySource | None
    signing: Mode | None
    encryption: bool
    retention: Mapping[str, Duration | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything about an application that is plain data.  Lengths of time are seconds."""

    url: str = "sqlite:///onward.db"
    store: str | None = None  # the database beside a broker
    namespace: str = "default"
    environment: str | None = None  # which of the schedules with environments= count here
    max_crashes: int = 3
    default_max_retries: int = 0
    default_retry: RetryPolicy | None = None  # None: Exponential()
    queue_retry: Mapping[str, RetryPolicy] = field(default_factory=dict)
    dead_letter_queue: str | None = None
    drop_on_dlq_failure: bool = False
    unknown_grace: float = 86_400.0
    max_payload: int = 256 * 1024
    lease_for: float = 30.0
    transaction_timeout: float = 5.0
    idempotency_ttl: float = 86_400.0
    enqueue_timeout: float = 5.0
    metrics: bool = True
    late_after: float = 300.0  # a queue whose oldest due job waits for longer fails its check
    queue_late_after: Mapping[str, float] = field(default_factory=dict)
    signing_keys: KeyRing | None = None
    signing: Mode | None = None  # None: warn where there are keys, off where there are none
    encryption: bool = False
    retention: Mapping[State, float | None] = field(  # None: until purged; 0: nothing but a tombstone
        default_factory=lambda: {
            State.COMPLETED: 86_400.0,
            State.CANCELLED: 7 * 86_400.0,
            State.DISCARDED: None,
        }
    )


def load(given: Mapping[str, Any], *, environ: Mapping[str, str] | None = None, start: Path | None = None) -> Settings:
    """Return the effective settings.  Unknown names in files and arguments are errors; in the environment they are not."""
    for problem in unknown_variables(environ):
        logger.warning("%s", problem)
    settings = Settings()
    for source, values in _sources(given, environ, start):
        settings = _overlay(settings, values, source)
    return settings


@contextmanager
def overruled(by: Mapping[str, Any]) -> Iterator[None]:
    """Let these settings replace even the arguments of an application that is made in the block, as a command line does."""
    token = _command_line.set(by)
    try:
        yield
    finally:
        _command_line.reset(token)


class Origin(NamedTuple):
    """A setting's effective value, and the place that named it."""

    value: Any
    source: str


def explain(
    given: Mapping[str, Any], *, environ: Mapping[str, str] | None = None, start: Path | None = None
) -> dict[str, Origin]:
    """Return the effective settings, each with the place it comes from."""
    settings, named = Settings(), {each.name: "default" for each in fields(Settings)}
    for source, values in _sources(given, environ, start):
        settings = _overlay(settings, values, source)
        named |= dict.fromkeys(values, source)
    return {name: Origin(getattr(settings, name), source) for name, source in named.items()}


def _sources(
    given: Mapping[str, Any], environ: Mapping[str, str] | None, start: Path | None
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the sources of settings, from the weakest to the strongest."""
    yield _from_file(start or Path.cwd())
    yield "the environment", _from_environment(os.environ if environ is None else environ)
    yield "Onward(...)", given
    yield "the command line", _command_line.get()


def _from_file(start: Path) -> tuple[str, dict[str, Any]]:
    for folder in config_file.folders_from(start):
        own, shared = folder / "onward.toml", folder / "pyproject.toml"
        if config_file.is_trusted(own):
            return str(own), _anchored(config_file.parse(own), folder)
        if config_file.is_trusted(shared):
            table = config_file.parse(shared).get("tool", {}).get("onward")
            if table is not None and not isinstance(table, dict):
                raise OptionError(f"{shared}: tool.onward must be a table of settings, not {table!r:.60}")
            if table is not None:
                return f"{shared} [tool.onward]", _anchored(table, folder)
    return "no file", {}


def _anchored(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Resolve relative paths from the file that names them: a command in a subfolder must find the same store."""
    if "signing_keys" in table:
        raise OptionError(
            f"{folder}: keys do not belong in a configuration file, which others read: name a file that holds them with "
            f"signing_keys_file, or set ONWARD_SIGNING_KEYS"
        )
    if _KEY_FILE in table:
        key_file = folder.absolute() / _of_type(str, table[_KEY_FILE], _KEY_FILE)
        table = {name: value for name, value in table.items() if name != _KEY_FILE} | {"signing_keys": key_file}
    for name in ("url", "store"):
        scheme, slashes, path = str(table.get(name, "")).partition(":///")
        if scheme == "sqlite" and path and not path.startswith("/"):
            table = {**table, name: f"{scheme}{slashes}{folder.absolute() / path}"}
    return table


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    known = {_variable(each.name): each for each in fields(Settings) if each.name not in _NOT_IN_ENVIRONMENT}
    said = {
        field_.name: _typed(environ[name], str(field_.type), name) for name, field_ in known.items() if name in environ
    }
    key_file = environ.get(_variable(_KEY_FILE))
    if key_file is None:
        return said
    if "signing_keys" in said:
        raise OptionError("ONWARD_SIGNING_KEYS and ONWARD_SIGNING_KEYS_FILE are both set: keep one of them")
    return said | {"signing_keys": Path(key_file)}


def unknown_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return what is wrong with variables that look like settings and are none; each once in a process.

    They are not refused: other programs share the environment, and containers add variables of their own.
    """
    known = {_variable(each.name) for each in fields(Settings)} | {_variable(_KEY_FILE)} | _OF_COMMANDS
    file_only = {_variable(name) for name in _NOT_IN_ENVIRONMENT}
    problems = []
    for name in sorted(os.environ if environ is None else environ):
        if not name.startswith("ONWARD_") or name in _told or (name in known and name not in file_only):
            continue
        if _OF_A_SERVICE.fullmatch(name):
            continue
        _told.add(name)
        if name in file_only:
            setting = name.removeprefix("ONWARD_").lower()
            problems.append(f"{name} is ignored: set {setting} in onward.toml or in Onward(...)")
        else:
            hint = names.suggestion(name, known - file_only)
            problems.append(f"{name} is ignored: there is no such setting{hint if 'mean' in hint else ''}")
    return problems


def to_environment(settings: Settings) -> dict[str, str | None]:
    """Return the environment of a process that is to have the same settings.  None: the variable must not be set.

    It cannot carry retention, policies of queues, and a default policy that is code.

    Keys of a file stay there; other keys are in the environment.  So give it only to a process of Onward, and do not show
    it.
    """
    said = {_variable(_KEY_FILE): None} | {
        _variable(each.name): _worded(getattr(settings, each.name))
        for each in fields(Settings)
        if each.name not in _NOT_IN_ENVIRONMENT
    }
    ring = settings.signing_keys
    if ring is not None and ring.path is not None:
        said |= {_variable(_KEY_FILE): str(ring.path.absolute()), _variable("signing_keys"): None}
    return said


def _variable(name: str) -> str:
    return f"ONWARD_{name.upper()}"


def _worded(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case KeyRing():
            return value.to_text()
        case RetryPolicy():
            return worded(value) if travels(value) else None
        case _:
            return str(value)


def _typed(text: str, kind: str, name: str) -> Any:
    if kind == "bool":
        if text.lower() not in ("1", "0", "true", "false", "yes", "no"):
            raise OptionError(f"{name} must be true or false, not {text!r}")
        return text.lower() in ("1", "true", "yes")
    if kind == "int":
        try:
            return int(text)
        except ValueError:
            raise OptionError(f"{name} must be a whole number, not {text!r}") from None
    if kind == "float":
        try:
            return float(text)
        except ValueError:
            return text  # a duration such as "10m"
    return text


def _overlay(settings: Settings, values: Mapping[str, Any], source: str) -> Settings:
    known = {each.name for each in fields(Settings)}
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise OptionError(f"{source}: there is no setting {name!r}{names.suggestion(name, known)}")
        checked[name] = _checked(name, value, settings, source)
    return replace(settings, **checked)


def _checked(name: str, value: Any, settings: Settings, source: str) -> Any:
    where = f"{source}: {name}"
    match name:
        case "url" | "store" | "environment":
            return None if name != "url" and value in (None, "") else _of_type(str, value, where)
        case "namespace":
            return names.namespace_name(value)
        case "dead_letter_queue" | "signing_keys" | "signing" | "default_retry" if value is None:
            return None
        case "dead_letter_queue":
            return names.queue_name(value)
        case (
            "unknown_grace" | "lease_for" | "transaction_timeout" | "enqueue_timeout" | "idempotency_ttl" | "late_after"
        ):
            return _at_least(_LOWEST.get(name, 1), seconds(value, where), where)
        case "max_crashes" | "default_max_retries" | "max_payload":
            return _at_least(_LOWEST[name], _of_type(int, value, where), where)
        case "metrics" | "drop_on_dlq_failure" | "encryption":
            return _of_type(bool, value, where)
        case "signing_keys" | "signing" | "default_retry":
            return _READERS[name](value, where)
        case "retention" | "queue_retry" | "queue_late_after":
            return {**getattr(settings, name), **_READERS[name](value, where)}
        case _:
            raise AssertionError(f"there is no check for {name}")


_LOWEST = {
    "max_crashes": 1,
    "default_max_retries": 0,
    "max_payload": 1024,
    "transaction_timeout": 0.1,
    "enqueue_timeout": 0.1,
    "idempotency_ttl": 0,
}


def _mode(value: Any, where: str) -> Mode:
    for mode in MODES:
        if value == mode:
            return mode
    raise OptionError(f"{where} must be {', '.join(MODES[:-1])} or {MODES[-1]}, not {value!r:.60}")


_WORDS = {str: "text", int: "a whole number", bool: "true or false"}


def _of_type(kind: type[T], value: Any, where: str) -> T:
    if type(value) is not kind:  # isinstance would take true for a number
        raise OptionError(f"{where} must be {_WORDS[kind]}, not {value!r:.60}")
    return value


def _at_least(low: float, value: float, where: str) -> float:
    if value < low:
        raise OptionError(f"{where} must be at least {low}, not {value!r:.60}")
    return value


def _queue_retry(value: Mapping[str, PolicyLike], where: str) -> dict[str, RetryPolicy]:
    if not isinstance(value, Mapping):
        raise OptionError(f"{where} must name a policy for each queue, such as {{'mail': 'fixed'}}, not {value!r:.60}")
    return {names.queue_name(queue): read_policy(policy, f"{where}.{queue}") for queue, policy in value.items()}


def _queue_late_after(value: Mapping[str, Duration], where: str) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise OptionError(
            f"{where} must name a length of time for each queue, such as {{'mail': '1m'}}, not {value!r:.60}"
        )
    return {
        names.queue_name(queue): _at_least(1, seconds(length, f"{where}.{queue}"), f"{where}.{queue}")
        for queue, length in value.items()
    }


def _retention(value: Mapping[str, Duration | None], where: str) -> dict[State, float | None]:
    if not isinstance(value, Mapping):
        raise OptionError(f"{where} must name a length of time for each state, not {value!r:.60}")
    finished = sorted(FINISHED)
    for state in value:
        if state not in finished:
            raise OptionError(f"{where} has no state {state!r}{names.suggestion(str(state), finished)}")
    return {State(state): None if length is None else seconds(length, where) for state, length in value.items()}


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "signing_keys": KeyRing.of,
    "signing": _mode,
    "default_retry": read_policy,
    "retention": _retention,
    "queue_retry": _queue_retry,
    "queue_late_after": _queue_late_after,
}
