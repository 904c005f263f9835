"""Starting the Django project of these tests in processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

__all__ = ["MANAGE", "PATIENCE", "Project"]

PATIENCE = 200  # seconds: reached only when something is broken, also on a machine that does ten things at once

_ROOT = Path(__file__).parents[3]  # where `tests` is
MANAGE = Path(__file__).with_name("project") / "manage.py"


class Project:
    """The project on one database."""

    def __init__(self, database, folder, extra=None):
        self.database = database
        self.folder = folder
        self.environment = {
            **os.environ,
            "SHOP_DATABASE": json.dumps(database.address["django"]),
            "SHOP_FOLDER": str(folder),
            "PYTHONPATH": os.pathsep.join(map(str, filter(None, [extra, _ROOT]))),
            "PYTHONWARNINGS": "error::DeprecationWarning:onward",
        }

    def start(self, *words, **options):
        """Start `manage.py` with these words."""
        return subprocess.Popen([sys.executable, MANAGE, *words], **self._how(options))

    def manage(self, *words, **options):
        """Run `manage.py` with these words, for as long as the test may take, and return what it printed."""
        ran = subprocess.run([sys.executable, MANAGE, *words], check=False, **self._how(options))
        assert ran.returncode == 0, ran.stdout
        return ran.stdout

    def _how(self, options):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return {"cwd": self.folder, "env": {**self.environment, **options}, **pipes}

    def shell(self, code):
        """Run some code in the project, and return what it printed."""
        return self.manage("shell", "--no-imports", "-c", code) if _quiet_shell() else self.manage("shell", "-c", code)


def _quiet_shell():
    """Whether `shell` of this Django imports models by itself, and says so."""
    import django

    return django.VERSION >= (5, 2)
