"""Programs that tests start: as a user that may nothing, from Debian if they are not there."""

import atexit
import os
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

UNPRIVILEGED = "nobody"


def lent_user():
    """How to start a server: servers refuse to run as root.  In its own group, so that all of it can be stopped at once."""
    lent = {"user": UNPRIVILEGED, "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    return {**lent, "cwd": "/", "start_new_session": True}


@cache
def wheel(package):
    """The folder of a package with programs, where the lent user can run them; nothing if it is not installed.

    The way to a checkout may be closed to others, as that to /root is: then it is a copy.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    if os.geteuid() != 0 or all(parent.stat().st_mode & 0o001 for parent in folder.parents):
        return folder
    copy = Path(tempfile.mkdtemp(prefix="programs-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    copy.chmod(0o755)
    for part in folder.parent.glob(f"{package}*/"):  # its libraries are beside it
        shutil.copytree(part, copy / part.name, symlinks=True)
    return copy / package


def apt_install(package):
    if os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "--yes", "--no-install-recommends", "-oDPkg::Lock::Timeout=300", package]
        for command in (["apt-get", "update"], install):
            subprocess.run(command, check=False, capture_output=True, env=environment)


def unavailable(what):
    """Skip the test, loudly; on CI that is a failure."""
    reason = f"it cannot be had here: {what}"
    assert os.environ.get("CI") != "true", reason
    pytest.skip(reason)
