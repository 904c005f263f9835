"""Schedules in the code: ``@jobs.schedule(...)`` above or below ``@jobs.job``.

Everything is checked where it is said.  The first process that books stores what is declared
(`onward.client.booking`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, Unpack, cast

from onward.base.names import suggestion
from onward.client.booking import Booker
from onward.client.bound_job import Job
from onward.client.calls import Call
from onward.client.schedules import PolicyOptions, ScheduleOptions, ScheduleWriter
from onward.errors import DefinitionError, OptionError
from onward.job.definition import JobDefinition

__all__ = ["Declarations"]

F = TypeVar("F")

_MARK = "__onward_schedules__"


class _Said(NamedTuple):
    """What a decorator says."""

    name: str | None
    args: Any
    policies: dict[str, Any]
    counts: bool  # whether this is one of its environments


class Declarations:
    """The schedules that the code of one application declares."""

    def __init__(self, writer: ScheduleWriter, booker: Booker, environment: str | None) -> None:
        self._writer = writer
        self._booker = booker
        self._environment = environment
        self._declared_by: dict[str, JobDefinition] = {}
        self._unmade: list[Any] = []  # functions with a schedule that are not jobs yet

    def declare(self, cron: str, **options: Unpack[ScheduleOptions]) -> Callable[[F], F]:
        """Run a job at the ticks of an expression: ``@jobs.schedule("0 9 * * mon-fri", tz="Europe/Berlin")``, above or
        below ``@jobs.job``.
        """
        self._writer.refuse_without_schedules()
        known = (*PolicyOptions.__annotations__, *ScheduleOptions.__annotations__)
        for option in options.keys() - set(known):
            raise OptionError(f"@jobs.schedule has no option {option!r}{suggestion(option, known)}")
        environments = options.get("environments")
        if environments is not None and not _are_names(environments):
            raise OptionError(f"environments must be a list of names such as ['production'], not {environments!r:.60}")
        policies = {name: value for name, value in options.items() if name not in ("name", "args", "environments")}
        counts = environments is None or self._environment in environments
        said = _Said(options.get("name"), options.get("args"), {"expression": cron, **policies}, counts)

        def declared(target: F) -> F:
            if isinstance(target, Job):
                self._declare(target, said)
            elif callable(target) and hasattr(target, "__dict__") and not isinstance(target, type):
                cast("Any", target).__onward_schedules__ = [*getattr(target, _MARK, []), said]
                self._unmade.append(target)
            else:
                raise OptionError("@jobs.schedule decorates a job: write it above or below @jobs.job")
            return target

        return declared

    def adopt(self, function: Any, job: Job[..., Any, Any, Any]) -> None:
        """Declare what ``@jobs.schedule`` below ``@jobs.job`` has said about a function."""
        for said in getattr(function, _MARK, ()):
            self._declare(job, said)
        self._unmade = [each for each in self._unmade if each is not function]

    def refuse_unmade(self) -> None:
        """Raise if a function has a schedule and is no job."""
        if self._unmade:
            function = getattr(self._unmade[0], "__qualname__", repr(self._unmade[0]))
            raise DefinitionError(f"{function} has a schedule and is no job: put @jobs.job above its @jobs.schedule")

    def _declare(self, job: Job[..., Any, Any, Any], said: _Said) -> None:
        name = job.name if said.name is None else said.name
        specification = self._writer.specification(name, call=_call(job, said.args, name), **said.policies)
        if not said.counts:
            return
        first = self._declared_by.get(name)
        # A cell of a notebook that is run again makes another job of the same name, which counts.
        if first is not None and (first is job.definition or first.name != job.name):
            raise DefinitionError(
                f"a schedule named {name!r} is already declared, of job {first.name}: give one of them another name with "
                f"@jobs.schedule(…, name=…)"
            )
        self._declared_by[name] = job.definition
        self._booker.declared[name] = specification
        self._booker.look_soon()


def _are_names(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset) and all(isinstance(each, str) for each in value)


def _call(job: Job[..., Any, Any, Any], args: Any, name: str) -> Call:
    """Return the call that ``args=`` says: by parameter name, or in order."""
    if args is None:
        return Call((), {}, job)
    if isinstance(args, Mapping) and all(isinstance(parameter, str) for parameter in args):
        return Call((), dict(args), job)
    if isinstance(args, Sequence) and not isinstance(args, str | bytes):
        return Call(tuple(args), {}, job)
    raise OptionError(f"schedule {name!r}: args must be a mapping such as {{'shard': 3}}, or a list, not {args!r:.60}")
