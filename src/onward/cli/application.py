"""Opening what a command works on: a store by its URL, or an application of the user's.

Functions here import what takes long, the application above all: `onward --help` needs none of it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onward import config
from onward.cli.application_name import ApplicationName
from onward.cli.exits import CommandError, Exit
from onward.errors import InvalidName, InvalidTime, OnwardError, OptionError

if TYPE_CHECKING:
    from argparse import Namespace

    from onward.app import Onward

__all__ = ["given", "load", "load_value", "on_new_store", "on_store", "refuse_missing"]

StoreCommand = Callable[["Onward", "Namespace"], int]


def on_store(run: StoreCommand) -> Callable[[Namespace], int]:
    """Make a command that works on an existing store: a command that only looks must not create one."""
    return lambda args: _run(run, args, creates=False)


def on_new_store(run: StoreCommand) -> Callable[[Namespace], int]:
    """Make a command that may be the first to use a store."""
    return lambda args: _run(run, args, creates=True)


def given(args: Namespace) -> dict[str, str]:
    """Return the settings that the command line names."""
    said = {name: value for name in ("url", "store", "namespace") if (value := getattr(args, name)) is not None}
    if "url" in said and "store" not in said:
        from onward.backends.opening import BROKERS, scheme_of

        if scheme_of(said["url"]) not in BROKERS:
            said["store"] = ""  # the store in the settings belongs to another URL
    return said


def load(name: str, settings: Mapping[str, str], imports: Sequence[str] = ()) -> Onward:
    """Import the application with this name, on the store that the command line names if it names one.

    The module is imported here, and every application that it makes meanwhile is opened with these settings.
    """
    place = ApplicationName.parse(name)
    with config.overruled(settings):
        module = _import(place.module, name)
        for each in imports:
            _import(each, name)
        return place.find(module)


def load_value(name: str) -> Any:
    """Import what is named as applications are, and is none of Onward's."""
    place = ApplicationName.parse(name)
    return place.attribute(_import(place.module, name))


def _run(run: StoreCommand, args: Namespace, *, creates: bool) -> int:
    with _opened(args, creates=creates) as app:
        if not app.backend.capabilities.shared and not _runs_here(app, args):
            raise CommandError(
                f"{app.settings.url} is visible to one process only, and this one is about to end: name a store that others "
                f"see, such as --url sqlite:///jobs.db",
                Exit.CONFIG,
            )
        return run(app, args)


def _runs_here(app: Onward, args: Namespace) -> bool:
    """Return whether jobs run inside `enqueue`: they need no other process."""
    from onward.backend import Inline

    return isinstance(app.backend, Inline) and args.app is not None


def _opened(args: Namespace, *, creates: bool) -> Onward:
    from onward.app import Onward

    try:
        if args.app is not None:
            return load(args.app, given(args))
        if not creates:
            refuse_missing(config.explain(given(args))["url"])
        settings: Any = given(args)
        return Onward(**settings)
    except (OptionError, InvalidName, InvalidTime) as error:
        raise CommandError(str(error), Exit.CONFIG) from error


def refuse_missing(url: config.Origin, option: str = "--url") -> None:
    """Raise if an SQLite file does not exist: SQLite would create it, and a typing error would look like an empty store."""
    if url.value.startswith("sqlite:"):
        from onward.backends.sqlite.url import parse_url

        path = Path(parse_url(url.value)[0]).absolute()
        if not path.exists():
            raise CommandError(
                f"there is no store at {path} ({_told_by(url, option)}): name it with "
                f"{option}{' or ONWARD_URL' if option == '--url' else ''}; the first job that is enqueued creates it",
                Exit.UNREACHABLE,
            )


def _told_by(url: config.Origin, option: str) -> str:
    return (
        "the default" if url.source == "default" else f"{url.value}, from {url.source.replace('Onward(...)', option)}"
    )


def _import(module_name: str, app: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except OnwardError:
        raise
    except Exception as error:
        raise CommandError(
            f"{app}: importing {module_name} failed: {type(error).__name__}: {error} (modules are looked for in "
            f"{here} first; --debug shows where)",
            Exit.CONFIG,
        ) from error
