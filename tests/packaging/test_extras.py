"""The wheel in empty environments: alone, and with each of its extras."""

import email
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.servers.programs import unavailable

_ROOT = Path(__file__).parents[2]
_HOME = "https://forge.example/team/onward"
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
_UV = Path(sys.executable).with_name("uv")

_PRELUDE = """
import importlib, sys
sys.path[:0] = sys.argv[1:]
from onward import Onward
"""

_ALONE = """
jobs = Onward("sqlite:///jobs.db")

@jobs.job
def double(number: int) -> int:
    return 2 * number

handle = double.enqueue(21)
jobs.drain()
print(handle.result())
"""

# What needs each extra: without it an error says so, with it no error is raised.  No server is reached.
_NEEDS = {
    "postgres": 'Onward("postgresql://localhost/x")',
    "mysql": 'Onward("mysql://localhost/x")',
    "redis": 'Onward("redis://localhost")',
    "beanstalk": 'Onward("beanstalk://localhost")',
    "servicebus": 'Onward("servicebus://key:c2VjcmV0@space")',
    "servicebus-identity": 'Onward("servicebus://space")',
    "crypto": f'Onward("memory://", encryption=True, signing_keys="k1:{"a" * 64}")',
    "otel": 'importlib.import_module("onward.integrations.otel").install(Onward("memory://"))',
    "sentry": 'importlib.import_module("onward.integrations.sentry").install(Onward("memory://"))',
    "flask": 'importlib.import_module("onward.integrations.flask")',
    "web": 'importlib.import_module("onward.cli.web_server").require_uvicorn()',
}

_WITHOUT = f"""
for extra, code in {_NEEDS!r}.items():
    try:
        exec(code)
    except Exception as error:
        print(f"{{extra}}: {{error}}")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, as a release builds it."""
    if not _UV.exists():
        unavailable("uv, which builds and installs the wheel")
    folder = tmp_path_factory.mktemp("wheel")
    command = [_UV, "build", "--quiet", "--wheel", "--out-dir", folder, _ROOT]
    environment = os.environ | {"PROJECT_URL": _HOME}
    built = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return next(folder.glob("*.whl"), None) or unavailable(f"what builds the wheel: {built.stderr[-500:]}")


def installed(wheel, extra, folder):
    """Install the wheel with an extra, and nothing else, into a folder."""
    wanted = f"onward{extra and f'[{extra}]'} @ {wheel.as_uri()}"
    where = ["--python", sys.executable, "--target", folder, "--constraint", _ROOT / "constraints.txt"]
    done = subprocess.run(
        [_UV, "pip", "install", "--quiet", *where, wanted], capture_output=True, text=True, check=False
    )
    if done.returncode:
        unavailable(f"the packages of the extra {extra!r}: {done.stderr[-500:]}")
    return folder


def run_in(folders, code, tmp_path):
    """Run code in a Python that sees the standard library and these folders."""
    command = [sys.executable, "-I", "-S", "-c", _PRELUDE + code, *folders]
    return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)


@pytest.mark.promise("S170")
@pytest.mark.timeout(600)  # what it installs may have to be downloaded
def test_every_extra_brings_what_its_part_of_onward_needs(wheel, tmp_path, subtests):
    bare = installed(wheel, "", tmp_path / "bare")
    assert run_in([bare], _ALONE, tmp_path).stdout == "42\n"
    without = run_in([bare], _WITHOUT, tmp_path).stdout
    assert set(_NEEDS) == set(_PROJECT["optional-dependencies"])
    for extra, code in _NEEDS.items():
        with subtests.test(extra=extra):
            # The package itself comes from the first folder, where it has been compiled.
            ran = run_in([bare, installed(wheel, extra, tmp_path / extra)], code, tmp_path)

            assert re.search(rf"^{extra}: .*pip install .onward\[{extra.split('-')[0]}\]", without, re.MULTILINE)
            assert ran.returncode == 0, ran.stderr


def test_the_page_of_an_index_has_no_dead_link(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        told = email.message_from_bytes(archive.read(name))
    links = re.findall(r"\]\(([^)\s]+)\)", told.get_payload())
    addresses = [line.split(", ")[1] for line in told.get_all("Project-URL")]

    assert links
    assert [link for link in links if not link.startswith(f"{_HOME}/blob/main/")] == []
    assert [
        link for link in links if not (_ROOT / link.removeprefix(f"{_HOME}/blob/main/").split("#")[0]).exists()
    ] == []
    assert addresses[0] == _HOME


def test_the_wheel_has_the_package_the_plugin_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()

    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"onward", "pytest_onward.py"}
    assert {"onward/py.typed", "onward/backends/sqlite/queries.sql"} <= set(names)
    assert [name for name in names if "__pycache__" in name or name.endswith((".db", ".map"))] == []
