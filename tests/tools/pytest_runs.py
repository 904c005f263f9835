"""Test runs that tests start: of pytest alone, with no plugin that is installed beside it save for those that are named."""

import os
import subprocess
import sys
from pathlib import Path

PLUGINS = ["xdist.plugin", "pytest_timeout"]
HOUSE = Path(__file__).parents[2]


def pytest_command(*options, plugins=()):
    """Give the command of a run.  To load all plugins takes a run longer than the few tests in it."""
    named = [option for plugin in (*PLUGINS, *plugins) for option in ("-p", plugin)]
    return [sys.executable, "-m", "pytest", *named, "-p", "no:cacheprovider", *map(os.fspath, options)]


def pytest_environment(**environment):
    """Give what a run finds in `os.environ`: nothing of the run that starts it."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**own, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(HOUSE), **environment}


def pytest_run(*options, plugins=(), folder, **environment):
    return subprocess.run(
        pytest_command(*options, plugins=plugins),
        cwd=folder,
        env=pytest_environment(**environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
    )
