"""The name of an application on a command line: ``shop:jobs``, ``shop:app.jobs``, or ``shop:create()``, a call.

A Flask application counts as the application that `onward.integrations.flask` keeps in it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.base.names import suggestion
from onward.base.wording import a
from onward.cli.exits import CommandError, Exit

if TYPE_CHECKING:
    from onward.app import Onward

__all__ = ["ApplicationName"]

_ATTRIBUTE = r"[^\W\d]\w*"
_NAME = re.compile(
    rf"(?P<module>[^:()]+):(?P<path>{_ATTRIBUTE}(?:\.{_ATTRIBUTE})*)(?P<call>\((?P<arguments>[^()]*)\))?"
)


class ApplicationName(NamedTuple):
    """The module of an application, and its attribute; `find` imports nothing."""

    text: str
    module: str
    path: str  # an attribute of the module, or of one of its attributes
    calls: bool  # whether it is a function that makes the application

    @classmethod
    def parse(cls, text: str) -> ApplicationName:
        read = _NAME.fullmatch(text)
        if read is None:
            raise CommandError(
                f"{text!r} names no application: write module:attribute, as in shop.jobs:jobs, or module:create()",
                Exit.USAGE,
            )
        module, path, call = read["module"], read["path"], read["call"] or ""
        if read["arguments"]:
            raise CommandError(f"{text!r} gives arguments: write {module}:{path}(), without arguments", Exit.USAGE)
        if module.endswith(".py") or "/" in module:
            dotted = module.removeprefix("./").removesuffix(".py").strip("/").replace("/", ".")
            raise CommandError(
                f"{text!r} names a file, and a module is named as in `import`: write {dotted}:{path}{call}", Exit.USAGE
            )
        return cls(text, module, path, bool(call))

    def find(self, module: Any) -> Onward:
        """Return the application from its module; call it first if it is a factory."""
        from onward.app import Onward

        found = self.attribute(module)
        if self.calls:
            return self._made_by(found)
        application = _kept_in(found)
        if not isinstance(application, Onward):
            raise self._refused(module, found)
        return application

    def attribute(self, module: Any) -> Any:
        """Return what has this name, whatever it is."""
        found, walked = module, self.module
        for number, name in enumerate(self.path.split("."), start=1):
            try:
                found = getattr(found, name)
            except AttributeError:
                raise self._error(f"{walked} has no attribute {name!r}{_nearest(name, found)}") from None
            except Exception as error:
                raise self._failed(f"reading {self.path}", error) from error
            walked = ".".join(self.path.split(".")[:number])
        return found

    def _made_by(self, factory: Any) -> Onward:
        from onward.app import Onward

        call = f"{self.path}()"
        if isinstance(factory, Onward):
            raise self._error(f"{self.path} is an application, which is not called: write {self.module}:{self.path}")
        if not callable(factory):
            raise self._error(f"{self.path} is {_kind(factory)}, which cannot be called: leave () out")
        if inspect.iscoroutinefunction(factory):
            raise self._error(f"{call} is async: name a plain function")
        if needed := _needed(factory):
            raise self._error(
                f"{call} needs arguments ({', '.join(needed)}): give them defaults, or name a function that takes none"
            )
        try:
            made = factory()
        except Exception as error:
            raise self._failed(f"calling {call}", error) from error
        application = _kept_in(made)
        if not isinstance(application, Onward):
            fix = ": return its jobs" if _has_jobs(made) else _fix(made) or ": return the Onward"
            raise self._error(f"{call} returned {_kind(made)} and no application{fix}")
        return application

    def _refused(self, module: Any, found: Any) -> CommandError:
        if inspect.isroutine(found):
            return self._error(f"{self.path} is a function: write {self.module}:{self.path}() to call it")
        known = _applications_in(module)
        hint = suggestion(self.path, known) if known else _fix(found)
        if known and "did you mean" not in hint:
            hint = f": {self.module} has {', '.join(known)}"
        if _has_jobs(found):
            hint = f": write {self.module}:{self.path}.jobs"
        return self._error(f"{self.path} is {_kind(found)} and no application{hint}")

    def _failed(self, doing: str, error: Exception) -> CommandError:
        return self._error(f"{doing} failed: {type(error).__name__}: {error} (--debug shows where)")

    def _error(self, message: str) -> CommandError:
        return CommandError(f"{self.text}: {message}", Exit.CONFIG)


def _has_jobs(found: Any) -> bool:
    """Return whether it has an application as its property `jobs`, as that of `onward.compat.celery` has."""
    return isinstance(getattr(type(found), "jobs", None), property)


def _kept_in(found: Any) -> Any:
    """Return the application that a Flask application keeps; everything else is what it is."""
    extensions = _extensions(found)
    return found if extensions is None else extensions.get("onward", found)


def _extensions(found: Any) -> Mapping[str, Any] | None:
    """Return the table in which Flask keeps extensions; without `__getattr__`, in which an object may do anything."""
    kept = getattr(found, "__dict__", {}).get("extensions")
    return kept if isinstance(kept, Mapping) else None


def _fix(found: Any) -> str:
    """Return what makes a Flask application the name of jobs, as the end of an error text."""
    return "" if _extensions(found) is None else ": call onward.integrations.flask.init_app(app) where it is made"


def _nearest(name: str, found: Any) -> str:
    public = [each for each in dir(found) if not each.startswith("_")]
    hint = suggestion(name, public)
    if "did you mean" in hint:
        return hint
    known = _applications_in(found)
    return f"; it has {', '.join(known)}" if known else ""


def _applications_in(module: Any) -> list[str]:
    from onward.app import Onward

    return (
        sorted(name for name, value in vars(module).items() if isinstance(value, Onward))
        if inspect.ismodule(module)
        else []
    )


def _needed(function: Callable[..., Any]) -> list[str]:
    """Return the parameters that have no default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in optional]


def _kind(value: Any) -> str:
    return "None" if value is None else a(type(value).__name__)
