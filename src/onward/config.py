"""Settings, and where they may come from: defaults < configuration file < environment < arguments.

The file is the nearest ``onward.toml``, or ``pyproject.toml`` with a ``[tool.onward]`` table, from the working directory
upwards.  The environment says ``ONWARD_URL``, ``ONWARD_NAMESPACE`` and so on.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypedDict

from onward import names
from onward.durations import Duration, seconds
from onward.errors import OptionError
from onward.states import FINISHED, State

__all__ = ["Settings", "SettingsOptions", "load"]


class SettingsOptions(TypedDict, total=False):
    """The settings as keywords of `Onward(...)`; lengths of time in any of the ways a `Duration` can be said."""

    namespace: str
    max_crashes: int
    default_max_retries: int
    dead_letter_queue: str | None
    drop_on_dlq_failure: bool
    unknown_grace: Duration
    max_payload: int
    lease_for: Duration
    metrics: bool
    retention: Mapping[str, Duration | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything about an application that is plain data.  Lengths of time are seconds."""

    url: str = "sqlite:///onward.db"
    namespace: str = "default"
    max_crashes: int = 3
    default_max_retries: int = 0
    dead_letter_queue: str | None = None
    drop_on_dlq_failure: bool = False
    unknown_grace: float = 86_400.0
    max_payload: int = 256 * 1024
    lease_for: float = 30.0
    metrics: bool = True
    retention: Mapping[State, float | None] = field(  # None: until purged; 0: nothing but a tombstone
        default_factory=lambda: {
            State.COMPLETED: 86_400.0,
            State.CANCELLED: 7 * 86_400.0,
            State.DISCARDED: None,
        }
    )


def load(given: Mapping[str, Any], *, environ: Mapping[str, str] | None = None, start: Path | None = None) -> Settings:
    """The effective settings.  Unknown names are errors wherever they come from."""
    settings = Settings()
    for source, values in (
        _from_file(start or Path.cwd()),
        ("the environment", _from_environment(os.environ if environ is None else environ)),
        ("Onward(...)", given),
    ):
        settings = _overlay(settings, values, source)
    return settings


def _from_file(start: Path) -> tuple[str, dict[str, Any]]:
    for folder in (start, *start.parents):
        own, shared = folder / "onward.toml", folder / "pyproject.toml"
        if own.is_file():
            return str(own), _parse(own)
        if shared.is_file():
            table = _parse(shared).get("tool", {}).get("onward")
            if table is not None:
                return f"{shared} [tool.onward]", table
    return "no file", {}


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"{path} cannot be read: {error}") from None


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    known = {f"ONWARD_{each.name.upper()}": each for each in fields(Settings) if each.name != "retention"}
    return {
        field_.name: _typed(environ[name], str(field_.type), name) for name, field_ in known.items() if name in environ
    }


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
        case "namespace":
            return names.namespace_name(value)
        case "dead_letter_queue":
            return None if value is None else names.queue_name(value)
        case "unknown_grace" | "lease_for":
            return _at_least(seconds(value, where), 1, where)
        case "max_crashes":
            return _at_least(value, 1, where)
        case "default_max_retries":
            return _at_least(value, 0, where)
        case "max_payload":
            return _at_least(value, 1024, where)
        case "retention":
            return {**settings.retention, **_retention(value, where)}
        case _:
            return value


def _at_least(value: Any, low: int, where: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < low:
        raise OptionError(f"{where} must be a number of at least {low}, not {value!r}")
    return value


def _retention(value: Mapping[str, Duration | None], where: str) -> dict[State, float | None]:
    finished = sorted(FINISHED)
    for state in value:
        if state not in finished:
            raise OptionError(f"{where} has no state {state!r}{names.suggestion(str(state), finished)}")
    return {State(state): None if length is None else seconds(length, where) for state, length in value.items()}
