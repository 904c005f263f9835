"""`init_app`: what connects an application with one of Flask's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, ref

from flask import Flask

from onward.app import Onward
from onward.config import Settings, load
from onward.errors import OptionError
from onward.integrations.flask.commands import onward_command
from onward.job.context import JobContext
from onward.security.key_ring import KeyRing

__all__ = ["init_app"]

_KEY, _PREFIX = "onward", "ONWARD_"


def init_app(app: Flask, jobs: Onward | None = None) -> Onward:
    """Run the jobs of an application in contexts of a Flask application; without one, make it from ``app.config``.

    It is in ``app.extensions["onward"]`` afterwards, and ``flask onward …`` works on it.  If the same application is given
    to a second Flask application, as tests do with a factory, its jobs run in contexts of that one.
    """
    if not isinstance(app, Flask):
        raise OptionError(f"init_app takes a Flask application first, not {app!r:.60}")
    if jobs is not None and not isinstance(jobs, Onward):
        raise OptionError(f"init_app takes an application, Onward(...), not {jobs!r:.60}")
    kept = app.extensions.get(_KEY)
    if kept is not None and kept is not jobs:
        raise OptionError(f"init_app was called for {app.name!r} already: its application is app.extensions['{_KEY}']")
    said = _settings_in(app)
    if jobs is None:
        _checked(said)
        jobs = Onward(**said)
    else:
        _refuse_others(jobs, said)
    _run_in_contexts_of(app, jobs)
    app.extensions[_KEY] = jobs
    app.cli.add_command(onward_command)
    return jobs


class RunContexts:
    """The hook of one application: each run is inside an application context of its own."""

    def __init__(self, app: Flask) -> None:
        self.app = app

    def around(self, ctx: JobContext) -> Iterator[None]:
        """Run a handler inside an application context, and what Flask tears down with it after the handler."""
        with self.app.app_context():
            yield


# Weak on both sides: the hook has the Flask application, which has the application.
_hooks: WeakKeyDictionary[Onward, ref[RunContexts]] = WeakKeyDictionary()


def _run_in_contexts_of(app: Flask, jobs: Onward) -> None:
    known = _hooks.get(jobs)
    hook = None if known is None else known()
    if hook is not None:
        hook.app = app
        return
    hook = RunContexts(app)
    jobs.around(hook.around)
    _hooks[jobs] = ref(hook)


def _settings_in(app: Flask) -> dict[str, Any]:
    """Return what ``app.config`` says of Onward, by the names of `Onward(...)`."""
    said = app.config.get_namespace(_PREFIX)
    key_file = said.pop("signing_keys_file", None)
    if key_file is None:
        return said
    if "signing_keys" in said:
        raise OptionError("app.config has ONWARD_SIGNING_KEYS and ONWARD_SIGNING_KEYS_FILE: keep one of them")
    return {**said, "signing_keys": Path(key_file)}


def _checked(said: Mapping[str, Any]) -> Settings:
    try:
        return load(said)
    except OptionError as error:
        raise OptionError(str(error).replace("Onward(...)", "ONWARD_* in app.config", 1)) from None


def _refuse_others(jobs: Onward, said: Mapping[str, Any]) -> None:
    """Raise if ``app.config`` says anything that the application was not made with: it would be ignored."""
    wanted = _checked(said)
    for name in said:
        if _plain(getattr(wanted, name)) != _plain(getattr(jobs.settings, name)):
            raise OptionError(
                f"app.config[{_PREFIX + name.upper()!r}] is not what the given application was made with: set it in the "
                f"environment or in onward.toml, or let init_app(app) make the application from app.config"
            )


def _plain(value: Any) -> Any:
    return value.to_text() if isinstance(value, KeyRing) else value
