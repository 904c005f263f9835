"""The page of the proof: totals by engine, every part with its size, commit and date, and what did not run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.proof.totals import DONE, OTHER, WRONG, Total, added
from tools.proof_part import Part
from tools.proof_record import Code, Record, Records

__all__ = ["Page", "at_length"]

_ORDER = ("sqlite", "postgres", "mariadb", "redis", "beanstalk", "memory")
_NAMES = {
    "sqlite": "SQLite",
    "postgres": "PostgreSQL",
    "mariadb": "MariaDB",
    "redis": "Redis",
    "beanstalk": "Beanstalkd",
    "memory": "memory",
}
_LONGEST_ERROR = 300

_HEAD = """\
# The proof

This page and [its records](assets/proof.jsonl) are written by `make proof` and by nothing else. The parts start real
servers, worker processes and supervisors, kill, pause and cut them off, and then compare what the store holds with what
every run wrote down. `make test` runs most of them at a small fraction of their size. Two parts run side by side, but for
those that measure time or speed.
"""


class Page:
    """A page that is written again after each part."""

    def __init__(self, file: Path, parts: Sequence[Part], records: Records, scale: float) -> None:
        self.file = file
        self._parts = parts
        self._records = records
        self._scale = scale

    def write(self, now: Code) -> None:
        """Replace it at once: there is never half of one."""
        latest = [record for part in self._parts if (record := self._records.latest(part.name)) is not None]
        missing = [part for part in self._parts if self._records.latest(part.name) is None]
        text = "\n".join(self._lines(latest, missing, now)).rstrip() + "\n"
        draft = self.file.with_name(f"{self.file.name}.new")
        draft.write_text(text)
        draft.replace(self.file)

    def _lines(self, latest: Sequence[Record], missing: Sequence[Part], now: Code) -> Iterator[str]:
        yield _HEAD
        yield from _summary(latest, len(self._parts), self._scale)
        yield from _same_code(latest, now)
        yield from _totals(latest)
        yield from self._each(latest)
        if missing:
            yield from ("## Not run", "", "These parts have no record: nothing on this page speaks of them.", "")
            yield from (f"- {part.name} ({_name(part.engine)}), planned {at_length(part.seconds)}" for part in missing)

    def _each(self, latest: Sequence[Record]) -> Iterator[str]:
        yield from (
            "## Parts",
            "",
            "| part | engine | outcome | took | began (UTC) | commit |",
            "|---|---|---|---|---|---|",
        )
        for record in latest:
            outcome = "ok" if record.ok else "**failed**"
            before = sum(not each.ok for each in self._records.of(record.part)[:-1] if each.code == record.code)
            outcome += f", failed {before} times before" if before else ""
            began, took = record.began[:16].replace("T", " "), at_length(record.seconds)
            yield f"| {record.part} | {_name(record.engine)} | {outcome} | {took} | {began} | {_commit(record)} |"
        failed = [record for record in latest if not record.ok]
        if failed:
            yield from ("", "## Failed", "")
            yield from map(_failure, failed)
        yield from ("", "## What each has counted", "")
        yield from (f"- **{record.part}** ({_name(record.engine)}): {_counted(record)}" for record in latest)
        yield ""


def _summary(latest: Sequence[Record], parts: int, scale: float) -> Iterator[str]:
    passed = sum(record.ok for record in latest)
    yield (
        f"**{len(latest)} of {parts} parts ran, at {scale:g} of the full size: {passed} passed, "
        f"{len(latest) - passed} failed, {parts - len(latest)} did not run.**"
    )
    if latest:
        began, ended = min(each.began for each in latest), max(each.began for each in latest)
        took = at_length(sum(record.seconds for record in latest))
        cores = ", ".join(sorted({str(record.cores) for record in latest}))
        versions = {_name(name): each for record in latest for name, each in sorted(record.versions.items())}
        yield (
            f"The first began on {began[:10]}, the last on {ended[:10]}; together they took {took} on {cores} cores, with "
            f"{', '.join(f'{name} {version}' for name, version in versions.items())}."
        )
    yield ""


def _same_code(latest: Sequence[Record], now: Code) -> Iterator[str]:
    """Say plainly of which code this is."""
    codes = {record.code: _commit(record) for record in latest}
    if len(codes) == 1:
        yield f"All of them ran on the same code, that of commit {next(iter(codes.values()))}."
    elif codes:
        counts = (f"{sum(record.code == code for record in latest)} at {commit}" for code, commit in codes.items())
        yield f"**The records are of different code**: {', '.join(counts)}. The totals add them up."
    if any(record.changed for record in latest):
        yield "A commit with a + had changes beside it that were not committed."
    if latest and now.code not in codes:
        yield "**The code has changed since.**"
    yield ""


def _totals(latest: Sequence[Record]) -> Iterator[str]:
    found: dict[str, list[dict[str, int]]] = {}
    for record in latest:
        for engine, counted in record.totals.items():
            found.setdefault(engine, []).append(counted)
    engines = sorted(found, key=lambda name: (*_ORDER, name).index(name))
    columns = {_name(engine): added(found[engine]) for engine in engines}
    columns["all"] = added(columns.values())
    yield from ("## What was done", "", *_table(DONE, columns), "")
    yield from ("## What went wrong", "", *_table([*WRONG, Total(OTHER, "")], columns), "")
    lost, jobs = columns["all"].get("lost"), columns["all"].get("jobs", 0)
    if lost == 0 and jobs:
        yield f"None lost in {jobs:,} jobs: with 95 % confidence fewer than 3 in {jobs:,} are, under what was done here."
        yield ""
    yield from ("A dash: no part that ran looks for it there.", "")
    yield from (f"- *{total.name}*: {total.means}" for total in (*DONE, *WRONG))
    yield from (f"- *{OTHER}*: all else that a part must not find, and errors; a part names it where it failed", "")


def _table(totals: Iterable[Total], columns: dict[str, dict[str, int]]) -> Iterator[str]:
    yield f"| | {' | '.join(columns)} |"
    yield f"|---|{'--:|' * len(columns)}"
    for total in totals:
        cells = (f"{counted[total.name]:,}" if total.name in counted else "–" for counted in columns.values())
        yield f"| {total.name} | {' | '.join(cells)} |"


def _failure(record: Record) -> str:
    flaws = [f"{name} {count:,}" for name, count in record.flaws.items() if count]
    errors = [" ".join(error.split())[:_LONGEST_ERROR].replace("`", "'") for error in record.errors]
    return f"- **{record.part}**: {'; '.join([*flaws, *(f'`{error}`' for error in errors)])}"


def _counted(record: Record) -> str:
    figures = (f"{name} {_number(value)}" for name, value in record.figures.items() if name != "seconds")
    flaws = f"nothing wrong of {len(record.flaws)} kinds" if record.ok else "failed, see above"
    return f"{', '.join(figures)}; {flaws}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def _commit(record: Record) -> str:
    return f"`{record.commit}{'+' if record.changed else ''}`"


def _name(engine: str) -> str:
    return _NAMES.get(engine, engine)


def at_length(seconds: float) -> str:
    """
    >>> at_length(59), at_length(61), at_length(3 * 3600 + 120)
    ('59 s', '1 min 1 s', '3 h 2 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
