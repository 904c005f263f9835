"""The tests' claims at full scale, as one run that can be stopped and goes on, and `docs/proof.md`, which it writes.

    python -m tools.proof                    every part that has not ended on this code; within four hours on two cores
    python -m tools.proof --afresh           all of them, from the first
    python -m tools.proof --failed           those that failed, once more, and then what has not ended
    python -m tools.proof --missing          those that have not ended on any code
    python -m tools.proof --only log         the parts with this in their names
    python -m tools.proof --list             all parts, what they are planned to take, and which have ended
    python -m tools.proof --scale 0.02       a fiftieth of it, with a record and a page of its own in .cache/proof
    python -m tools.proof --at-once 1        one part after the other; else two run side by side, but for those that measure

Each part runs in a process of its own and leaves a line in `docs/assets/proof.jsonl` when it ends, whatever becomes of the
run after that.  The file is committed with the page: a run goes on in another checkout.  A part that failed has ended: the
page says so, and the exit code is 1 until it passes.  A part counts as ended while nothing in src and tests has changed; a
line in a page changes nothing.  `--missing` is for a proof that takes days: a part that has ended on older code has ended,
and the page says of which code each was.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tools.proof_page import Page, at_length
from tools.proof_part import BUDGET, ROOT, Part
from tools.proof_record import AtWork, Code, Records, code_of_now, end_what_is_left
from tools.proof_run import Job, prove_here, run

CACHE = ROOT / ".cache" / "proof"
PAGE = ROOT / "docs" / "proof.md"
RECORDS = ROOT / "docs" / "assets" / "proof.jsonl"
STOPPED = 130  # as a shell calls what Ctrl-C has ended
_MINUTE = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    # A shell has it ignored for what runs in the background, and the runs that we end by it would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parts: tuple[Part, ...] = _found(options.parts)
    if options.part:
        (part,) = (each for each in parts if each.name == options.part)
        return prove_here(part, options.scale, options.into)
    chosen = [part for part in parts if options.only in part.name]
    if not chosen:
        sys.exit(f"no part has {options.only!r} in its name: {', '.join(part.name for part in parts)}")
    whole = options.scale == 1
    folder: Path = options.folder or (CACHE if whole else CACHE / f"scale-{options.scale:g}")
    records = Records(folder, RECORDS if whole and options.folder is None else None)
    if options.list:
        return _list(chosen, records, options.scale, _code(options))
    page = Page(options.page or (PAGE if whole else folder / "proof.md"), parts, records, options.scale)
    try:
        with end_what_is_left(folder) as mark:
            return _Run(chosen, records, page, options, mark).to_the_end()
    except AtWork as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        page.write(_code(options))
        print("\nstopped: the same command goes on with the parts that have not ended")
        return STOPPED


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.proof", description="The tests' claims at full scale.")
    parser.add_argument("--scale", type=float, default=float(os.environ.get("ONWARD_PROOF_SCALE", "1")))
    parser.add_argument("--only", default="", metavar="WORD", help="the parts with this in their names")
    parser.add_argument("--afresh", action="store_true", help="run what has ended before, too")
    parser.add_argument("--failed", action="store_true", help="run what has failed once more")
    parser.add_argument("--missing", action="store_true", help="run what has not ended on any code")
    parser.add_argument(
        "--at-once",
        type=int,
        choices=range(1, 9),
        default=2,
        metavar="N",
        help="parts side by side, but for those that measure",
    )
    parser.add_argument("--list", action="store_true", help="show the parts, the plan and what has ended; run nothing")
    parser.add_argument("--folder", type=Path, help="where the records are kept, and what a run needs")
    parser.add_argument("--page", type=Path, help="the page to write")
    for name in ("--part", "--into"):  # what the process of a part is told
        parser.add_argument(name, type=Path if name == "--into" else str, help=argparse.SUPPRESS)
    # A test has its own, and files that come and go beside it are no change of code.
    parser.add_argument("--parts", default="tools.proof_parts:PARTS", help=argparse.SUPPRESS)
    parser.add_argument("--code", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _code(options: argparse.Namespace) -> Code:
    return code_of_now() if options.code is None else Code(options.code, options.code, changed=False)


def _found(parts: str) -> tuple[Part, ...]:
    module, _, name = parts.partition(":")
    found: tuple[Part, ...] = getattr(importlib.import_module(module), name)
    return found


def _list(parts: Sequence[Part], records: Records, scale: float, code: Code) -> int:
    print(f"{'planned':>9} {'last':>9}  {'':16} part")
    for part in parts:
        latest, last = records.latest(part.name), records.seconds(part.name)
        state = "not run" if latest is None else "ok" if latest.ok else "failed"
        state += " (older code)" if latest is not None and latest.code != code.code else ""
        took = "" if last is None else f"{last:,.0f} s"
        print(f"{part.seconds * scale:>7,.0f} s {took:>9}  {state:16} {part.name} ({part.engine})")
    planned = sum(part.seconds * scale for part in parts)
    known = sum(_estimate(part, records, scale) for part in parts)
    print(f"\n{len(parts)} parts, planned {at_length(planned)} of {at_length(BUDGET * scale)}; ", end="")
    print(f"by the last runs {at_length(known)}")
    return 0


def _estimate(part: Part, records: Records, scale: float) -> float:
    """By the run before, or as it is planned."""
    last = records.seconds(part.name)
    return part.seconds * scale if last is None else last


class _Run:
    """The parts that have not ended: first so many at once, then those that measure, one after the other."""

    def __init__(
        self, chosen: Sequence[Part], records: Records, page: Page, options: argparse.Namespace, mark: str
    ) -> None:
        self._chosen = chosen
        self._records = records
        self._page = page
        self._options = options
        self._mark = mark
        self._code = _code(options)
        self._lock = threading.Lock()  # around all that follows, the records, the page and what is said
        self._left: list[Part] = []  # that have not begun
        self._shown: dict[str, _Shown] = {}  # of those at work
        self._stopping = False

    def to_the_end(self) -> int:
        if self._options.afresh:
            self._records.begin_afresh()
        todo = [part for part in self._chosen if not self._has_ended(part)]
        self._left = list(todo)
        _say(f"{len(self._chosen) - len(todo)} of {len(self._chosen)} parts have ended on this code")
        self._prove_all([part for part in todo if not part.measures], at_once=self._options.at_once)
        self._prove_all([part for part in todo if part.measures], at_once=1)
        self._page.write(self._code)
        latest = [self._records.latest(part.name) for part in self._chosen]
        failed = [record.part for record in latest if record is not None and not record.ok]
        _say(f"all of {len(self._chosen)} parts have ended, {len(failed)} failed: see {self._page.file}")
        for name in failed:
            print(f"  FAILED {name}")
        return 1 if failed else 0

    def _has_ended(self, part: Part) -> bool:
        latest = self._records.latest(part.name)
        if latest is None or (self._options.failed and not latest.ok):
            return False
        return self._options.missing or self._records.has_ended(part.name, self._code.code)

    def _prove_all(self, parts: Sequence[Part], *, at_once: int) -> None:
        with ThreadPoolExecutor(at_once) as threads:
            try:
                for proving in [threads.submit(self._prove, part) for part in parts]:
                    proving.result()
            except BaseException:
                self._stopping = True  # those at work notice when they are looked at next
                threads.shutdown(cancel_futures=True)
                raise

    def _prove(self, part: Part) -> None:
        scale, expected = self._options.scale, _estimate(part, self._records, self._options.scale)
        with self._lock:
            self._left.remove(part)
            self._shown[part.name] = _Shown(part.name, expected)
            _say(f"{part.name} ({part.engine}): about {at_length(expected)}, then {len(self._left)} more")
        job = Job(part, scale, self._code, self._records.folder, self._options.parts, self._mark)
        record = run(job, lambda seconds, done: self._look(part, seconds, done))
        with self._lock:
            if self._stopping:  # it may have been killed with the others
                return
            del self._shown[part.name]
            self._records.append(record)
            self._page.write(self._code)
            flaws = ", ".join(f"{name} {count:,}" for name, count in record.flaws.items() if count)
            told = "ok" if record.ok else "; ".join(filter(None, ["FAILED", flaws, *record.errors]))
            _clear()
            _say(f"  {part.name}: {told}, after {at_length(record.seconds)}")

    def _look(self, part: Part, seconds: float, done: str) -> None:
        """Show those at work all the time on a terminal, and once a minute elsewhere."""
        if self._stopping:
            raise KeyboardInterrupt
        with self._lock:
            shown = self._shown[part.name]
            before, shown.seconds, shown.done = shown.seconds, seconds, done
            if sys.stdout.isatty():
                print(f"\r\x1b[K  {'; '.join(map(str, self._shown.values()))}", end="", flush=True)
            elif seconds // _MINUTE != before // _MINUTE:
                _say(f"  {shown}; {at_length(self._seconds_left())} left")

    def _seconds_left(self) -> float:
        """Estimate the rest, by the parts that share the machine and those that do not."""
        rest = {part: _estimate(part, self._records, self._options.scale) for part in self._left}
        alone = sum(seconds for part, seconds in rest.items() if part.measures)
        at_work = sum(max(0.0, each.expected - each.seconds) for each in self._shown.values())
        at_once: int = self._options.at_once
        return alone + (sum(rest.values()) - alone + at_work) / at_once


@dataclass
class _Shown:
    """How far a part is that is at work."""

    name: str
    expected: float
    seconds: float = 0.0
    done: str = ""

    def __str__(self) -> str:
        return (
            f"{self.name}: for {at_length(self.seconds)} of about {at_length(self.expected)}, {self.done or 'at work'}"
        )


def _clear() -> None:
    if sys.stdout.isatty():
        print("\r\x1b[K", end="")


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
