"""Run a part of the proof in a process of its own, say how far it is, and record what it has shown."""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from onward import __version__
from tests.proof.ledger import Ledger
from tools.proof_part import EVERY, ROOT, Part
from tools.proof_record import MARK, Code, Record

__all__ = ["Job", "prove_here", "run"]

_LOOKS = 0.5  # seconds from one look at a part to the next
_GRACE = 30.0  # seconds that a part has to stop its servers and workers by itself


class Job(NamedTuple):
    """A part that is to run."""

    part: Part
    scale: float
    code: Code
    folder: Path
    parts: str  # where the process finds the parts
    mark: str

    def file(self, ending: str) -> Path:
        folder = self.folder / "logs"
        folder.mkdir(exist_ok=True)
        return folder / (re.sub(r"\W+", "-", self.part.name) + ending)

    @property
    def longest(self) -> float:
        """The seconds after which it is ended, and has failed: nothing may take the time of all others."""
        return 600 + 3 * self.part.seconds * self.scale


def run(job: Job, look: Callable[[float, str], None]) -> Record:
    """Run it to its end.  ``look`` is told the seconds, and how far it is."""
    began, begun = datetime.now(UTC), time.monotonic()
    shown, progress = job.file(".json"), job.file(".progress")
    for file in (shown, progress):
        file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tools.proof", "--parts", job.parts, "--part", job.part.name]
    environment = os.environ | {MARK: job.mark, "PYTHONUNBUFFERED": "1"}
    with job.file(".log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--scale", str(job.scale), "--into", str(shown)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is ours to pass on
        )
        errors = _attend(process, job, begun, lambda seconds: look(seconds, _text_of(progress)))
    seconds = time.monotonic() - begun
    ledger = _read(shown, job)
    if errors:
        ledger.errors.extend(errors)
    return Record(
        part=job.part.name,
        engine=job.part.engine,
        ok=ledger.flawless,
        scale=job.scale,
        began=began.isoformat(timespec="seconds"),
        seconds=round(seconds, 1),
        **job.code._asdict(),
        cores=len(os.sched_getaffinity(0)),
        versions=_versions(job.part.engine),
        figures=ledger.figures,
        flaws=ledger.flaws,
        errors=sorted(set(ledger.errors))[:5],
        totals=ledger.totals(job.part.engine),
    )


def _attend(process: subprocess.Popen[bytes], job: Job, begun: float, look: Callable[[float], None]) -> list[str]:
    """Wait for its end, and stop it when we are stopped or it takes too long; gives what went wrong."""
    try:
        while process.poll() is None:
            seconds = time.monotonic() - begun
            look(seconds)
            if seconds > job.longest:
                _stop(process)
                return [f"ended after {seconds:,.0f} seconds, which is too long"]
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOKS)
    finally:
        _stop(process)
    code = process.returncode
    return [f"its process ended with {code}: see {job.file('.log')}"] if code else []


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Interrupt it, so that it ends its servers and workers, and kill it if it does not."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _text_of(file: Path) -> str:
    with suppress(OSError):
        return file.read_text()
    return ""


def _read(file: Path, job: Job) -> Ledger:
    """What it has shown; nothing if it did not come so far."""
    if not file.exists():
        return Ledger(job.part.name, {}, {}, ["it has shown nothing"])
    try:
        return msgspec.json.decode(file.read_bytes(), type=Ledger)
    except msgspec.DecodeError as error:
        return Ledger(job.part.name, {}, {}, [f"what it has shown cannot be read: {error}"])


def _versions(engine: str) -> dict[str, str]:
    from tests.servers.engines import version_of

    engines = ("sqlite", "postgres", "mariadb", "redis") if engine == EVERY else (engine,)
    servers = {each: version_of(each) for each in engines}
    ours = {"Onward": __version__, "Python": platform.python_version()}
    return ours | {name: version for name, version in servers.items() if version}


def prove_here(part: Part, scale: float, into: Path) -> int:
    """Run a part in this process, and write what it has shown."""
    told = [0.0]

    def tell(done: int) -> None:
        if time.monotonic() - told[0] > 1:
            told[0] = time.monotonic()
            into.with_suffix(".progress").write_text(f"{-done:,} left" if done < 0 else f"{done:,} done")

    try:
        ledger = part.proved(scale, tell)
    except Exception as error:  # noqa: BLE001  whatever it is, the part has failed
        traceback.print_exc()
        ledger = Ledger(part.name, {}, {}, [f"{type(error).__name__}: {error}"[:500]])
    print(ledger)
    into.write_bytes(msgspec.json.encode(ledger))
    return 0
