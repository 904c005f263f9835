"""Where each version of Django is run: in the environment of the tests, or in one that `make django` has built.

Django 6 needs Python 3.12.  Debian 12 has none, so there it cannot be built, and its tests are skipped with the reason.
"""

import subprocess
import sys
import tarfile
import tempfile
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

from tests.servers.programs import unavailable

__all__ = ["interpreter", "source"]

_ROOT = Path(__file__).parents[3]
_CACHE = _ROOT / ".cache" / "django"


def interpreter(version):
    """The interpreter that has this version of Django, such as 6.1."""
    if metadata.version("Django").startswith(f"{version}."):  # 5.2 on Python 3.11, a newer one on a newer Python
        return sys.executable
    python = _ROOT / f".venv-django-{version}" / "bin" / "python"
    if not python.exists():
        pytest.skip(
            f"Django {version} is not here: 5.2 comes with Python 3.11; `make django` builds 6.0 and 6.1 where it finds "
            f"Python 3.12 or later, on the PATH or in pyenv"
        )
    return python


@cache
def source(version):
    """The folder of the source distribution of a version, which has Django's own tests."""
    found = sorted(_CACHE.glob(f"django-{version}.*/tests/tasks"))
    if not found:
        _download(version)
        found = sorted(_CACHE.glob(f"django-{version}.*/tests/tasks"))
    return found[-1].parents[1]


def _download(version):
    _CACHE.mkdir(parents=True, exist_ok=True)
    options = ["--no-deps", "--no-binary=Django", "--ignore-requires-python", "--disable-pip-version-check"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, f"--dest={_CACHE}", f"Django=={version}.*"],
        capture_output=True,
        text=True,
        check=False,
    )
    archives = sorted(_CACHE.glob(f"[dD]jango-{version}.*.tar.gz"))
    if not archives:
        unavailable(f"the source of Django {version}: {(done.stdout + done.stderr)[-500:]}")
    with tempfile.TemporaryDirectory(dir=_CACHE) as unpacked, tarfile.open(archives[-1]) as archive:
        (name,) = {each.name.split("/")[0] for each in archive}
        tests = [each for each in archive if each.name.startswith(f"{name}/tests/tasks/")]
        archive.extractall(unpacked, tests, filter="data")
        # Whole or not at all: a test that is ended half-way leaves nothing that the next one takes for the source.
        (Path(unpacked) / name).rename(_CACHE / name)
