"""The built files of the dashboard belong to their sources, and the sources keep the rules of its policy."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tools import web_build
from tools.web_build import BUILT, SOURCES, BuildError, check, manifest


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SOURCES, tmp_path / "web", ignore=shutil.ignore_patterns("node_modules")))


@pytest.fixture
def built(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BUILT, tmp_path / "static"))


def test_the_committed_files_belong_to_the_sources() -> None:
    check()


def test_a_changed_source_is_noticed(sources: Path, built: Path) -> None:
    page = sources / "src" / "main.tsx"
    page.write_text(page.read_text() + "\n")
    with pytest.raises(BuildError, match="run `make web`"):
        check(built, sources)


def test_a_new_source_is_noticed(sources: Path, built: Path) -> None:
    (sources / "src" / "pages" / "new.tsx").touch()
    with pytest.raises(BuildError, match="changed after the last build"):
        check(built, sources)


def test_installed_packages_are_no_sources(sources: Path, built: Path) -> None:
    (sources / "node_modules").mkdir()
    (sources / "node_modules" / "index.js").touch()
    check(built, sources)


@pytest.mark.parametrize("name", ["app.js", "app.css", "index.html", "icon.svg"])
def test_a_built_file_that_was_edited_is_noticed(built: Path, name: str) -> None:
    (built / name).write_text("edited")
    with pytest.raises(BuildError, match="edit web/ only"):
        check(built)


def test_a_missing_manifest_says_what_to_run(built: Path) -> None:
    (built / web_build.MANIFEST).unlink()
    with pytest.raises(BuildError, match="run `make web`"):
        check(built)


def test_more_bytes_than_allowed_are_refused(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_build, "LARGEST", 30_000)
    with pytest.raises(BuildError, match="may have 30,000"):
        check(built)


def test_the_manifest_names_every_built_file() -> None:
    assert manifest(BUILT)["files"].keys() == {"app.js", "app.css", "index.html", "icon.svg"}  # type: ignore[attr-defined]


def test_the_lock_file_names_no_registry() -> None:
    assert "resolved" not in (SOURCES / "package-lock.json").read_text()


# Each would break the page under its policy, or open a way from text to script.
_FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function|style=|javascript:|https?://|\bon[a-z]+=\""
)


@pytest.mark.parametrize(
    "path",
    [path for path in sorted((SOURCES / "src").rglob("*")) if path.suffix in {".ts", ".tsx", ".html", ".css"}],
    ids=lambda path: str(path.relative_to(SOURCES)),
)
def test_sources_hold_nothing_that_the_policy_forbids(path: Path) -> None:
    assert _FORBIDDEN.findall(path.read_text()) == []
