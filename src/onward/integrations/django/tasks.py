"""What can be said of a task beyond Django's words: how often and how long it is tried, its keys, its limits.

@task(max_attempts=5, backoff=Exponential(base=10), timeout=30)      Django 6.1, and 5.2 with django-tasks
@task
@options(max_retries=5, unique_key="welcome:{user_id}")              every version, and every option
onward_using(send, unique_key="welcome:42").enqueue(42)              one call
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Self, TypeVar, Unpack, get_type_hints

from onward.base.names import suggestion
from onward.errors import DefinitionError, OptionError
from onward.integrations.django.versions import Task
from onward.job.definition import EnqueueOptions, JobOptions, UsingOptions, define
from onward.job.secrets import is_telling, names_secret, place

__all__ = [
    "OnwardTask",
    "check_settings",
    "job_options",
    "onward_using",
    "options",
    "rebuilt",
    "secret_places",
    "using_options",
]

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE = "onward_options"
_DJANGOS = {  # Django has words of its own for these
    "name": "a task is named by its module path",
    "aliases": "OPTIONS['aliases'] in TASKS has the old paths of a task",
    "queue": "write @task(queue_name=…) or .using(queue_name=…)",
    "priority": "write @task(priority=…) or .using(priority=…)",
    "at": "write .using(run_after=…)",
    "delay": "write .using(run_after=timezone.now() + timedelta(…))",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OnwardTask(Task):  # type: ignore[misc, unused-ignore]
    """A task with the words that Django's authors have proposed, and with the options of one call."""

    max_attempts: int | None = None
    backoff: Any = field(default=None, hash=False)
    timeout: Any = field(default=None, hash=False)
    call_options: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)

    def __new__(cls, *_: Any, **given: Any) -> Self:  # Django hands on every word of `@task`
        known = [each.name for each in fields(cls)]
        for name in given:
            if name not in known:
                raise OptionError(f"@task takes no {name!r}{_instead(name, known)}")
        return object.__new__(cls)


def options(**given: Unpack[JobOptions]) -> Callable[[F], F]:
    """Give a task options of `@jobs.job(...)`: a decorator that stands below `@task`."""
    _check(given, "options()", lambda: define("task", given))

    def keep(function: F) -> F:
        if isinstance(function, Task):
            raise OptionError("@options(…) stands below @task, next to the function: exchange the two lines")
        setattr(function, _ATTRIBUTE, dict(given))
        return function

    return keep


def onward_using(task: Any, **given: Unpack[UsingOptions]) -> Any:
    """Return the same task with options of `job.using(...)` for what is enqueued through it."""
    _check(given, "onward_using()", lambda: EnqueueOptions.check(given))
    if not isinstance(task, Task):
        raise OptionError(f"onward_using takes a task, as @task makes it, not {task!r:.60}")
    return rebuilt(task, call_options={**getattr(task, "call_options", {}), **given})


def _instead(name: str, known: list[str]) -> str:
    """Return what to write instead of a word that `@task` does not take, as the end of an error text."""
    if name in _DJANGOS:
        return f": {_DJANGOS[name]}"
    if name in JobOptions.__annotations__:
        return f": write @options({name}=…) below it"
    said = ("backend", "backoff", "max_attempts", "priority", "queue_name", "takes_context", "timeout")
    return suggestion(name, [each for each in known if each in said])


def _check(given: Mapping[str, Any], where: str, read: Callable[[], object]) -> None:
    for name in given:
        if name in _DJANGOS:
            raise OptionError(f"{where} takes no {name!r}: {_DJANGOS[name]}")
    read()


def rebuilt(task: Any, **changes: Any) -> Any:
    """Return a task with other values in some fields, unchecked: what the store has was checked when it was enqueued."""
    known = {each.name: getattr(task, each.name) for each in fields(task)}
    kind = OnwardTask if "call_options" in changes else type(task)  # it may have been declared for another backend
    made = object.__new__(kind)
    for each in fields(kind):
        default = each.default if each.default is not MISSING else {}
        object.__setattr__(made, each.name, changes.get(each.name, known.get(each.name, default)))
    return made


def using_options(task: Any) -> dict[str, Any]:
    """Return the options of one call, in Onward's words; the instant of ``run_after`` is added by the backend."""
    said = dict(getattr(task, "call_options", None) or {})
    return {**said, "queue": task.queue_name, "priority": int(task.priority)}


def job_options(task: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options under which a task is registered: of `@options`, then of `@task`, then of the settings."""
    said: dict[str, Any] = dict(getattr(task.func, _ATTRIBUTE, {}))
    if getattr(task, "max_attempts", None) is not None:
        said = {name: value for name, value in said.items() if name != "max_retries"}
        said["max_attempts"] = task.max_attempts
    said |= {
        word: getattr(task, name)
        for name, word in (("backoff", "retry"), ("timeout", "timeout"))
        if getattr(task, name, None) is not None
    }
    if "max_retries" in settings or "max_attempts" in settings:
        said = {name: value for name, value in said.items() if name not in ("max_retries", "max_attempts")}
    said |= settings
    if said.get("unique_key") is not None:
        said["unique_key"] = _key_of_call(task, said["unique_key"])
    _refuse_by(task, said)
    return said


def check_settings(path: str, said: Any) -> None:
    """Raise for options that the settings have for a task, and that are wrong."""
    if not isinstance(said, Mapping):
        raise OptionError(f"OPTIONS['tasks'][{path!r}] is a table of options, not {said!r:.60}")
    _check(said, f"OPTIONS['tasks'][{path!r}]", lambda: define("task", said))


def _refuse_by(task: Any, said: Mapping[str, Any]) -> None:
    for name in ("limit", "breaker"):
        given = said.get(name)
        for each in given if isinstance(given, tuple | list) else (given,):
            if getattr(each, "by", None) is not None:
                raise DefinitionError(
                    f"{task.module_path}: {name}=…(by=…) counts by a parameter, and the arguments of Django's tasks have no "
                    f"names in the store: give each call its key, onward_using(task, lane=…)"
                )


def _key_of_call(task: Any, given: Any) -> Callable[[list[Any], dict[str, Any]], str]:
    """Return a function that makes a unique key of what travels: a template and a function name the task's parameters."""
    signature, path = _signature(task), task.module_path
    if not isinstance(given, str) and not callable(given):
        raise DefinitionError(
            f"{path}: unique_key is a template such as 'welcome:{{user_id}}' or a function, not {given!r:.60}"
        )
    wanted = None if isinstance(given, str) else list(inspect.signature(given).parameters)
    for name in wanted or ():
        if name not in signature.parameters:
            raise DefinitionError(
                f"{path}: unique_key wants {name!r}, which is no parameter of the task"
                f"{suggestion(name, list(signature.parameters))}"
            )

    def key(args: list[Any], kwargs: dict[str, Any]) -> str:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if isinstance(given, str):
            return given.format(**bound.arguments)
        made: str = given(**{name: bound.arguments[name] for name in wanted or ()})
        return made

    return key


def _signature(task: Any) -> inspect.Signature:
    signature = inspect.signature(task.func)
    parameters = list(signature.parameters.values())
    return signature.replace(parameters=parameters[1:] if task.takes_context else parameters)


def secret_places(task: Any) -> tuple[str, ...]:
    """Return where in the payload of a task arguments are that no page and no log shows: by their names or types."""
    return tuple(_places(task))


def _places(task: Any) -> Iterator[str]:
    try:
        hints = get_type_hints(task.func)
    except Exception:  # noqa: BLE001  annotations in quotes are any expression
        hints = {}
    for number, parameter in enumerate(_signature(task).parameters.values()):
        if is_telling(parameter.name) or names_secret(hints.get(parameter.name)):
            yield place(["kwargs", parameter.name])
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                yield place(["args", str(number)])
