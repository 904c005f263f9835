"""Follow one SQLite job through a worker, and print the files and functions of `src/onward` that it enters, in order.

    python -m tools.trace            the road of a job, and its totals
    python -m tools.trace --json     the same for programs
    python -m tools.trace check      exit 1 and say so, if docs/tour.md quotes other totals

How it counts.  `sys.setprofile` reports each Python function that a thread enters.  A worker on a fresh SQLite file runs
two jobs first, so that start-up (imports, tables, prepared statements, threads) is over, and is left alone until it is idle.
Then one job is enqueued and recorded until its settlement is reported.  Three threads belong to the job and are counted:

- the thread that enqueues, from the call of `enqueue` until it returns,
- the thread that runs the handler,
- the thread that claims and settles, until it leaves `attempt/report.py` for the last time.

The other threads (renewal, wake, sweep, events) do the same when there is no job: they are what an idle worker does, and are
left out.  A function counts once, however often it is entered; a lambda is a function, a comprehension or generator
expression belongs to the function around it (CPython 3.12 and newer inline the former).  The handler itself is not in
`src/onward` and not counted.  Several jobs are recorded one after the other, and the shortest road is printed: on a longer
one a thread did something that is done now and then, such as to open a connection again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import onward
from onward import Onward

PAGE = Path("docs/tour.md")
MAX_FUNCTIONS = 150  # on a job's road; a test counts

_SOURCE = str(Path(onward.__file__).parent) + "/"
_LAST_STOP = "attempt/report.py"
_WARM_UP, _RECORDED = 2, 5
_QUIET, _TAIL, _RUNS_FOR = 0.3, 0.05, 0.02
_PART_OF_A_FUNCTION = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
_QUOTE = re.compile(r"(\d+) files(?:,| and) (\d+) functions")


class Entered(NamedTuple):
    """One thread entered one function."""

    thread: int
    code: CodeType


class Function(NamedTuple):
    """A function on the road, with the number of times it was entered."""

    file: str
    name: str
    calls: int


@dataclasses.dataclass(frozen=True)
class Road:
    """The functions that one job entered, in the order of the first entry."""

    functions: tuple[Function, ...]

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.file for each in self.functions))

    @property
    def totals(self) -> str:
        return f"{len(self.files)} files, {len(self.functions)} functions"


def main(arguments: Sequence[str] | None = None, root: Path = Path()) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.trace", description="Follow one SQLite job through a worker."
    )
    parser.add_argument("command", choices=["show", "check"], nargs="?", default="show")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args(arguments)

    road = record()
    if chosen.command == "check":
        complaints = find_complaints((root / PAGE).read_text(encoding="utf-8"), road)
        print("".join(f"{each}\n" for each in complaints), end="", file=sys.stderr)
        return 1 if complaints else 0
    print(as_json(road) if chosen.json else as_text(road))
    return 0


def find_complaints(page: str, road: Road) -> list[str]:
    """What the page says of the road, and is not so."""
    quotes = [f"{files} files, {functions} functions" for files, functions in _QUOTE.findall(page)]
    if not quotes:
        return [f"{PAGE}: quotes no totals; they are {road.totals}"]
    return [f"{PAGE}: quotes {each}; the trace has {road.totals}" for each in quotes if each != road.totals]


def as_text(road: Road) -> str:
    lines: list[str] = []
    for file in road.files:
        lines.append(file)
        lines.extend(f"    {each.calls:4}  {each.name}" for each in road.functions if each.file == file)
    return "\n".join([*lines, "", road.totals])


def as_json(road: Road) -> str:
    functions = [each._asdict() for each in road.functions]
    return json.dumps({"files": len(road.files), "functions": len(road.functions), "road": functions}, indent=2)


def record() -> Road:
    """Record a few jobs, one after the other, and return the shortest road."""
    with tempfile.TemporaryDirectory() as folder, _recorder() as recorder:
        roads = _follow(f"sqlite:///{folder}/trace.db", recorder)
    return min(roads, key=lambda road: len(road.functions))


def _follow(url: str, recorder: Recorder) -> list[Road]:
    jobs = Onward(url)
    threads: list[int] = []

    @jobs.job
    def greet(name: str) -> str:
        threads.append(threading.get_ident())
        time.sleep(_RUNS_FOR)  # long enough for the pump to wait, so that every run takes the same road
        return f"hello {name}"

    roads = []
    with jobs, jobs.worker(concurrency=1):
        for number in range(_WARM_UP + _RECORDED):
            time.sleep(_QUIET)
            recorder.start()
            greet.enqueue("ada")
            recorder.leave_out_this_thread()
            _await_report(jobs, number + 1)
            entered = recorder.stop()
            if number >= _WARM_UP:
                roads.append(road_of(entered, caller=threading.get_ident(), handler=threads[-1]))
    return roads


def _await_report(jobs: Onward, succeeded: int) -> None:
    """Wait until the counters say that a job's settlement was reported."""
    deadline = time.monotonic() + 60
    while jobs.metrics.snapshot().get("jobs_succeeded", {}).get("default", 0) < succeeded:
        if time.monotonic() > deadline:
            raise SystemExit("the job was not settled within a minute")
        time.sleep(_TAIL)
    time.sleep(_TAIL)


class Recorder:
    """Notes what every thread enters in `src/onward`, while it is on."""

    def __init__(self) -> None:
        self._entered: list[Entered] = []
        self._on = False
        self._left_out = 0

    def start(self) -> None:
        self._entered, self._left_out, self._on = [], 0, True

    def leave_out_this_thread(self) -> None:
        self._left_out = threading.get_ident()

    def stop(self) -> list[Entered]:
        self._on = False
        return self._entered

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Called by the interpreter."""
        if not self._on or event != "call" or not frame.f_code.co_filename.startswith(_SOURCE):
            return
        thread = threading.get_ident()
        if thread != self._left_out:
            self._entered.append(Entered(thread, frame.f_code))


@contextmanager
def _recorder() -> Iterator[Recorder]:
    recorder, before = Recorder(), sys.getprofile()
    threading.setprofile(recorder.note)
    sys.setprofile(recorder.note)
    try:
        yield recorder
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


def road_of(entered: Sequence[Entered], caller: int, handler: int) -> Road:
    """What belongs to the job, of what all threads entered."""
    reports = [place for place, each in enumerate(entered) if _file(each.code) == _LAST_STOP and each.thread != caller]
    if not reports:
        raise SystemExit(f"no thread entered {_LAST_STOP}: where does a job's road end now?")
    end = reports[-1]
    settler = entered[end].thread
    counted: dict[CodeType, int] = {}
    for place, (thread, code) in enumerate(entered):
        ours = thread in {caller, handler} or (thread == settler and place <= end)
        if ours and code.co_name not in _PART_OF_A_FUNCTION:
            counted[code] = counted.get(code, 0) + 1
    return Road(tuple(Function(_file(code), code.co_qualname, calls) for code, calls in counted.items()))


def _file(code: CodeType) -> str:
    return code.co_filename.removeprefix(_SOURCE)


if __name__ == "__main__":
    sys.exit(main())
