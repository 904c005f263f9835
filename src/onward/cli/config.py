"""``onward config`` and ``version``: the effective settings, and the versions of Onward and its libraries."""

from __future__ import annotations

import platform
import sqlite3
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import msgspec

from onward import config
from onward.base.credentials import shown_url
from onward.cli import output
from onward.cli.application import given, load
from onward.cli.command import Command
from onward.cli.exits import CommandError, Exit
from onward.cli.table import Column
from onward.errors import InvalidName, InvalidTime, OptionError
from onward.job.retry import RetryPolicy, travels
from onward.job.retry_config import worded
from onward.security.key_ring import KeyRing
from onward.version import __version__

__all__ = ["COMMANDS"]


class Setting(NamedTuple):
    name: str
    value: Any
    source: str


def show_config(args: Namespace) -> int:
    """Print the effective settings, without opening the store."""
    try:
        settings = _of_command_line(args) if args.app is None else _of_application(args.app, given(args))
    except (OptionError, InvalidName, InvalidTime) as error:
        raise CommandError(str(error), Exit.CONFIG) from error
    output.listing(args, [settings], _SETTINGS, _as_data)
    return Exit.OK


def version(args: Namespace) -> int:
    versions = {
        "onward": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "msgspec": msgspec.__version__,
    }
    if args.json:
        output.json_line(versions)
    else:
        for name, number in versions.items():
            output.write(f"{name:<8} {number}")
    return Exit.OK


def _of_command_line(args: Namespace) -> list[Setting]:
    said = given(args)
    return [
        Setting(name, origin.value, _place(_variable(name, origin.value), origin.source, _option(name, said)))
        for name, origin in config.explain(said).items()
    ]


def _of_application(name: str, said: Mapping[str, str]) -> list[Setting]:
    """Return the settings of an application: those of file, environment and command line, and those in its code."""
    app = load(name, said)
    outside = config.explain({})
    settings = []
    for field in fields(app.settings):
        value, origin = getattr(app.settings, field.name), outside[field.name]
        source = origin.source if value == origin.value and field.name not in said else "Onward(...)"
        in_arguments = _option(field.name, said) if field.name in said else f"Onward(...), {name}"
        settings.append(Setting(field.name, value, _place(_variable(field.name, value), source, in_arguments)))
    app.close()
    return settings


def _option(name: str, said: Mapping[str, str]) -> str:
    """Return the option that decides: a --url without a store overrules a store that is named elsewhere."""
    return "--url" if name == "store" and not said.get(name) else f"--{name}"


def _variable(name: str, value: Any) -> str:
    return f"{name}_file" if isinstance(value, KeyRing) and value.path is not None else name


def _place(name: str, source: str, in_arguments: str) -> str:
    match source:
        case "the environment":
            return f"ONWARD_{name.upper()}"
        case "Onward(...)":
            return in_arguments
        case _:
            return source


def _as_data(setting: Setting) -> dict[str, Any]:
    return setting._replace(value=_shown(setting.value))._asdict()


def _shown(value: Any) -> Any:
    """Return a value for people: of keys their states, of a URL no password."""
    if isinstance(value, KeyRing):
        return value.states
    if isinstance(value, RetryPolicy):
        return _policy(value)
    if isinstance(value, dict):
        return {name: _shown(each) for name, each in value.items()}
    return shown_url(value) if isinstance(value, str) else value


def _policy(policy: RetryPolicy) -> str:
    """Return a policy for people; one that is code, by its name."""
    return worded(policy) if travels(policy) else type(policy).__name__


def _told(setting: Setting) -> str:
    if isinstance(setting.value, KeyRing):
        return ", ".join(f"{key_id} {state}" for key_id, state in setting.value.states.items())
    if isinstance(setting.value, RetryPolicy):
        return _policy(setting.value)
    if setting.name == "queue_retry":
        return ", ".join(f"{queue} {_policy(policy)}" for queue, policy in setting.value.items()) or "none"
    if setting.name == "retention":
        return ", ".join(
            f"{state} {'kept' if kept is None else f'{kept:g} s'}" for state, kept in setting.value.items()
        )
    return str(_shown(setting.value))


_SETTINGS: tuple[Column[Setting], ...] = (
    Column("SETTING", lambda setting: setting.name),
    Column("VALUE", _told),
    Column("FROM", lambda setting: setting.source, style=lambda setting: "dim" if setting.source == "default" else ""),
)

COMMANDS = (
    Command(
        "config",
        "show the effective settings and where each of them comes from",
        show_config,
        about="From the weakest to the strongest: the default, the nearest onward.toml or [tool.onward] table, the "
        "environment, Onward(...) in the application's code (seen with --app only), the command line.",
    ),
    Command(
        "version",
        "show the versions of onward and what it runs on",
        version,
        about="`onward --version` prints that of onward alone, in one line.",
    ),
)
