"""``python djangos_own.py SOURCE FOLDER``: run the task tests of Django's source distribution against Onward.

They are copied to FOLDER with the names of their two backends replaced, and for Django 5.2 with the names of the package
that has its tasks.  Prints one JSON object: how many ran, and the text of each that did not pass.
"""

import json
import re
import shutil
import sys
import unittest
from pathlib import Path

import django
from django.conf import settings

_BACKPORT = {
    r"\bdjango\.tasks\b": "django_tasks",
    r"\b(InvalidTask|InvalidTaskBackend)\b": r"\1Error",
}


def copied(source, folder):
    """Copy the tests, and put our backends in the places of Django's."""
    shutil.copytree(source / "tests" / "tasks", folder / "tasks")
    shutil.copy(Path(__file__).with_name("standins.py"), folder)
    for file in (folder / "tasks").glob("*.py"):
        text = file.read_text()
        for name in ("dummy", "immediate"):
            text = text.replace(f"django.tasks.backends.{name}", "standins")
        if django.VERSION < (6, 0):
            for theirs, backports in _BACKPORT.items():
                text = re.sub(theirs, backports, text)
        file.write_text(text)


class Recorded(unittest.TextTestResult):
    """Keeps the text of what does not pass, also of single cases of a test."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.missed = {}

    def addError(self, test, err):  # noqa: N802
        super().addError(test, err)
        self.missed[test.id()] = self._exc_info_to_string(err, test)

    addFailure = addError  # noqa: N815

    def addSubTest(self, test, subtest, err):  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.missed[test.id()] = self._exc_info_to_string(err, test)


def main(source, folder):
    copied(Path(source), Path(folder))
    sys.path.insert(0, folder)
    own = ["django_tasks"] if django.VERSION < (6, 0) else []
    settings.configure(
        INSTALLED_APPS=["onward.integrations.django", *own, "tasks"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        USE_TZ=True,
        SECRET_KEY="a key of tests",
    )
    django.setup()
    found = unittest.defaultTestLoader.discover(folder, pattern="test_*.py", top_level_dir=folder)
    with Path(folder, "log").open("w") as log:
        result = unittest.TextTestRunner(stream=log, resultclass=Recorded).run(found)
    sys.stdout.write(json.dumps({"django": django.get_version(), "ran": result.testsRun, "missed": result.missed}))


if __name__ == "__main__":
    main(*sys.argv[1:])
