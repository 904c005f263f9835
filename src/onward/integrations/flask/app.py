"""The application of a Flask project, for commands: ``FLASK_APP=shop onward worker onward.integrations.flask.app:jobs``.

Flask finds its application as ``flask run`` does, at the first look at `jobs`.
"""

from __future__ import annotations

import os

import click
from flask.cli import ScriptInfo

from onward.app import Onward
from onward.errors import OptionError

__all__: list[str] = []


def __getattr__(name: str) -> Onward:
    if name != "jobs":
        raise AttributeError(name)
    info = ScriptInfo(app_import_path=os.environ.get("FLASK_APP"))
    try:
        app = info.load_app()
    except click.UsageError as error:
        raise OptionError(error.format_message()) from error
    except AttributeError as error:  # of the project: passed on, it would say that there are no `jobs` here
        raise RuntimeError(f"AttributeError: {error}") from error
    jobs = app.extensions.get("onward")
    if not isinstance(jobs, Onward):
        raise OptionError(
            f"the Flask application {app.name!r} has no jobs: call onward.integrations.flask.init_app(app) where it is made"
        )
    return jobs
