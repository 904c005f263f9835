"""What the parts of the proof have shown, a line of JSON for each that ended, and what a stopped run left behind."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from tools.proof_part import ROOT

__all__ = ["MARK", "AtWork", "Code", "Record", "Records", "code_of_now", "end_what_is_left"]

MARK = "PROOF_RUN"  # in the environment of every process of a run
PROVED = ("src", "tests")  # what is on trial, and what tries it: a change of a page or a tool does not count


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A part that ended."""

    part: str
    engine: str
    ok: bool
    scale: float
    began: str  # ISO 8601, UTC
    seconds: float
    commit: str
    code: str  # changes with everything in PROVED
    changed: bool  # there was something in PROVED that was not committed
    cores: int
    versions: dict[str, str]
    figures: dict[str, float]
    flaws: dict[str, int]
    errors: list[str]
    totals: dict[str, dict[str, int]]  # by engine, in the words of `tests.proof.totals`


class Code(NamedTuple):
    """What a record is about."""

    commit: str
    code: str
    changed: bool


@cache
def code_of_now() -> Code:
    """Read it from git.  What is not committed counts, too."""
    changes = _git("diff", "HEAD", "--binary", "--", *PROVED)
    new = [
        ROOT / name for name in _git("ls-files", "--others", "--exclude-standard", "--", *PROVED).split("\n") if name
    ]
    trees = _git("rev-parse", *(f"HEAD:{name}" for name in PROVED))
    digest = hashlib.sha256(f"{trees}\n{changes}".encode())
    for path in new:
        digest.update(path.read_bytes())
    return Code(_git("rev-parse", "--short=12", "HEAD").strip(), digest.hexdigest()[:12], bool(changes or new))


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


class Records:
    """The records of one scale.  They are in `file`; what a run needs beside them is in the folder."""

    def __init__(self, folder: Path, file: Path | None = None) -> None:
        self.folder = folder
        self._file = file or folder / "records.jsonl"
        self._before = folder / "before.jsonl"  # of runs before the last that began afresh: for estimates only
        folder.mkdir(parents=True, exist_ok=True)

    def append(self, record: Record) -> None:
        """Write a line that is on the disk when this returns."""
        line = msgspec.json.encode(record) + b"\n"
        with self._file.open("ab") as file:
            if file.tell() and not self._file.read_bytes().endswith(b"\n"):
                line = b"\n" + line  # the line before was cut off by a power cut
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def begin_afresh(self) -> None:
        if self._file.exists():
            with self._before.open("ab") as before:
                before.write(self._file.read_bytes())
            self._file.unlink()

    def of(self, part: str) -> list[Record]:
        """The records of a part, oldest first."""
        return [record for record in _read(self._file) if record.part == part]

    def latest(self, part: str) -> Record | None:
        return next(iter(reversed(self.of(part))), None)

    def has_ended(self, part: str, code: str) -> bool:
        """Whether its last record is of this code.  One that failed has ended, too."""
        latest = self.latest(part)
        return latest is not None and latest.code == code

    def seconds(self, part: str) -> float | None:
        """How long it took the last time it passed."""
        known = [record for file in (self._before, self._file) for record in _read(file)]
        return next((each.seconds for each in reversed(known) if each.part == part and each.ok), None)


def _read(file: Path) -> Iterator[Record]:
    for line in file.read_bytes().splitlines() if file.exists() else ():
        with suppress(msgspec.DecodeError):  # cut off, or of an older form
            yield msgspec.json.decode(line, type=Record)


class AtWork(Exception):
    """Another run uses the folder."""


@contextmanager
def end_what_is_left(folder: Path) -> Iterator[str]:
    """Hold the folder for one run, and give the mark of its processes.

    Servers and workers outlive a run that was killed.  The mark is on the disk before the first of them is started: the next
    run ends all processes that have it in their environment, and so does this one at its end.
    """
    marks = folder / "mark"
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AtWork(f"another run of the proof is at work in {folder}") from None
        if marks.exists():
            _end_all(marks.read_text())
        mark = secrets.token_hex(16)
        marks.write_text(mark)
        try:
            yield mark
        finally:
            _end_all(mark)
            marks.unlink()


def _end_all(mark: str) -> None:
    """Kill every process with this mark, until there is none: one may have started another meanwhile."""
    deadline = time.monotonic() + 30
    while found := list(_marked(f"{MARK}={mark}".encode())):
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TimeoutError(f"these processes of an earlier run do not end: {found}")
        time.sleep(0.02)


def _marked(entry: bytes) -> Iterator[int]:
    for folder in Path("/proc").iterdir():
        # Of a process that has ended and was not waited for it is empty; those of other users are not ours.
        with suppress(OSError, ValueError):
            if int(folder.name) != os.getpid() and entry in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)
