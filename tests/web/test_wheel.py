"""The wheel in an empty environment: the page is served from it, with nothing but what it depends on, and without node."""

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.servers.programs import unavailable

pytestmark = pytest.mark.timeout(600)  # a build asks the index for its backend

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built as a release is, from a copy, so that nothing is left in the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "sources"
    for name in ("src", "README.md", "LICENSE", "pyproject.toml", "tools"):
        place = ROOT / name
        (shutil.copytree if place.is_dir() else shutil.copy)(place, _made(copy) / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, copy]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode and "No matching distribution found for hatchling" in built.stderr:
        unavailable("hatchling, which builds the wheel")
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("onward-*.whl")
    return wheel


def _made(folder):
    folder.mkdir(exist_ok=True)
    return folder


def needed(requirements, extras=()):
    """The names of all distributions that these requirements lead to here."""
    found = {}
    for requirement in map(Requirement, requirements or ()):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            found[requirement.name] = None
            found.update(dict.fromkeys(needed(metadata.requires(requirement.name), requirement.extras)))
    return list(found)


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A virtual environment with the wheel and what its metadata asks for, copied from here: no index is needed."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    install = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet", "--no-deps"]
    subprocess.run([*install, "--no-index", wheel], check=True)
    (installed,) = packages.glob("onward-*.dist-info")
    for name in needed(metadata.Distribution.at(installed).requires, ["web"]):
        for file in metadata.files(name) or ():
            if ".." not in file.parts:
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file.locate(), packages / file)
    return folder


@pytest.fixture
def served(environment, tmp_path):
    """`onward web` of that environment, and nothing else on its path: where it is, and its token."""
    bare = {"PATH": str(environment / "bin"), "HOME": str(tmp_path)}
    assert shutil.which("node", path=bare["PATH"]) is None
    onward = environment / "bin" / "onward"
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    subprocess.run(
        [onward, "--url", url, "enqueue", "welcome"], env=bare, cwd=tmp_path, check=True, capture_output=True
    )
    command = [onward, "--url", url, "web", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, env=bare, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip().split("#token=")
        finally:
            process.terminate()


def fetched(address, token=None):
    request = urllib.request.Request(address, headers={} if token is None else {"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read(), answer.headers


def test_it_serves_the_page_without_node(served):
    address, token = served

    page, headers = fetched(address)
    files = re.findall(r'(?:src|href)="(static/[^"]+)"', page.decode())
    kinds = {Path(file.partition("?")[0]).name: fetched(address + file)[1].get_content_type() for file in files}

    assert "require-trusted-types-for 'script'" in headers["Content-Security-Policy"]
    assert kinds == {"app.js": "text/javascript", "app.css": "text/css", "icon.svg": "image/svg+xml"}
    jobs = json.loads(fetched(f"{address}api/v1/jobs", token)[0])
    assert "welcome" in json.dumps(jobs)


def test_it_has_the_built_files_and_no_source_of_them(environment):
    (package,) = environment.glob("lib/python3*/site-packages/onward")
    built = {file.name for file in (package / "web" / "static").iterdir()}

    assert built == {"app.js", "app.css", "icon.svg", "index.html", "manifest.json"}
    assert not [file for file in package.rglob("*") if file.suffix in (".ts", ".tsx", ".mjs", ".map")]
    assert not (package / "node_modules").exists()
