"""``flask onward worker``, ``flask onward job list`` …: the command `onward` for the application of this project."""

from __future__ import annotations

import os

import click
from flask.cli import ScriptInfo

from onward.integrations.replacing import command, replace_process

__all__ = ["onward_command"]

_APPLICATION = "onward.integrations.flask.app:jobs"


@click.command(
    "onward",
    help="Run workers, and look at and steer jobs: flask onward --help",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def onward_command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Replace this process by the command."""
    info = ctx.ensure_object(ScriptInfo)
    if info.create_app is not None:  # a script or a test made it: no other process could
        raise click.UsageError(
            "worker processes load the application by its name: use `flask --app shop onward …`, or call what it does, such "
            "as app.extensions['onward'].drain()"
        )
    named = {} if info.app_import_path is None else {"FLASK_APP": info.app_import_path}
    replace_process(command(words, _APPLICATION), {**os.environ, **named})
