"""The filter language, the same in the command line, in code and on a page.

    state:dead queue:mail job:send_* group:3fa9c2d1e0b7 since:2h until:10m by:host-7 error:Timeout arg.user_id:42 text

State, queue, group, since and until are looked up by indexes and ids, for ids carry the time at which they were made.  The
other words are compared job by job, with what a record shows: secrets are masked there, so no filter finds them.

`parse` reads a text; `Filter.query` is what the store is asked, `Filter.accepts` what is compared here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from onward.backend import Query, StoredJob
from onward.base.clock import SECOND
from onward.base.durations import instant, seconds
from onward.base.ids import earliest_id
from onward.base.names import is_pattern, like, serves, suggestion
from onward.errors import InvalidTime, OptionError
from onward.job.secrets import MASK, is_telling
from onward.job.states import State

__all__ = ["STATE_WORDS", "WORDS", "Candidate", "Filter", "FilterError", "parse", "quoted"]

# What each word means, for the help.
WORDS: Mapping[str, str] = {
    "state": "a state, or several: state:dead, state:scheduled,retryable",
    "queue": "a queue; * stands for any text: queue:tenant.*",
    "job": "a job name: job:send_*",
    "group": "a group of dead jobs, as `onward dead groups` names it, or the beginning of that",
    "id": "one job, or several: id:0199a4c1…,0199a4c2…",
    "flow": "the jobs of a flow, by its id",
    "node": "the jobs of one node, besides flow: flow:0199a4c1… node:parts",
    "since": "enqueued since then: since:2h, since:2030-01-31T12:00Z",
    "until": "enqueued until then: until:10m",
    "ended-since": "ended since then",
    "ended-until": "ended until then",
    "by": "the host or the session that runs it, or ran it last: by:host-7",
    "error": "a part of its last error or of its reason: error:Timeout",
    "arg.NAME": "an argument: arg.user_id:42, arg.order.id:7",
}
STATE_WORDS: Mapping[str, State] = {
    "due": State.AVAILABLE,
    "later": State.SCHEDULED,
    "retry": State.RETRYABLE,
    "running": State.EXECUTING,
    "done": State.COMPLETED,
    "dead": State.DISCARDED,
}

_LONGEST = 2_000  # characters
_MOST = 50  # terms
_MILLISECOND = 1_000
_WORD = re.compile(r"([A-Za-z][A-Za-z_-]*)((?:\.[^\s:\".]+)*):")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_BARE = re.compile(r"\S+")
_ID = re.compile(r"[0-9a-f]{32}")


class FilterError(OptionError):
    """A filter that cannot be read.  ``column`` is where, counted from 1."""

    def __init__(self, column: int, told: str) -> None:
        super().__init__(f"filter, column {column}: {told}")
        self.column = column


class Candidate(Protocol):
    """A job that a filter looks at."""

    @property
    def stored(self) -> StoredJob: ...

    @property
    def text(self) -> str:
        """All that a record shows of it, folded."""
        ...

    @property
    def troubles(self) -> list[str]:
        """Its last error, and the reason for its end."""
        ...

    @property
    def workers(self) -> list[str]:
        """The hosts and sessions that run it, or ran it last."""
        ...

    def argument(self, path: tuple[str, ...]) -> list[str]:
        """Return the texts of an argument; none if there is no such argument, or it is not shown."""
        ...


Test = Callable[[Candidate], bool]


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter that was read.  Ids in between ``first`` and ``beyond`` match; the latter is the first that does not."""

    text: str
    shown: str = ""  # the text without what it says of secrets, for the audit trail
    states: frozenset[State] | None = None
    queue: str | None = None
    job: str | None = None
    group: str | None = None
    ids: tuple[str, ...] | None = None
    flow: str | None = None
    node: str | None = None
    first: str | None = None
    beyond: str | None = None
    tests: tuple[Test, ...] = ()

    @property
    def is_indexed(self) -> bool:
        """Whether the store alone answers it."""
        return not self.tests

    def query(self, *, after: str | None, limit: int, newest_first: bool) -> Query:
        """Return what the store is asked for one page of a walk by id."""
        if self.ids is not None:
            limit = max(1, len(self.ids))  # they are few, and come all at once
        start = self.beyond if newest_first else _before(self.first)
        return Query(
            ids=self.ids,
            states=self.states,
            queue=self.queue,
            job=self.job,
            flow=self.flow,
            node=self.node,
            fingerprint=self.group,
            after=start if after is None else after,
            limit=limit,
            newest_first=newest_first,
        )

    def within(self, queues: Sequence[str] | None) -> Filter:
        """Return the same filter for jobs of these queues only, names and patterns; None: of all."""
        if queues is None or (self.queue is not None and serves(queues, self.queue)):
            return self
        if self.queue is None and len(queues) == 1 and not is_pattern(queues[0]):
            return msgspec.structs.replace(self, queue=queues[0])
        return msgspec.structs.replace(self, tests=(*self.tests, lambda each: serves(queues, each.stored.queue)))

    def is_over(self, job_id: str, *, newest_first: bool) -> bool:
        """Return whether a walk by id has passed its last bound."""
        if newest_first:
            return self.first is not None and job_id < self.first
        return self.beyond is not None and job_id >= self.beyond

    def covers(self, stored: StoredJob) -> bool:
        """Return whether a job is what the store is asked for, but for its group."""
        return (
            (self.states is None or stored.state in self.states)
            and self.queue in (None, stored.queue)
            and self.job in (None, stored.job)
        )

    def accepts(self, candidate: Candidate) -> bool:
        """Return whether a job that the store returned matches the rest."""
        return all(test(candidate) for test in self.tests)


class _Term(NamedTuple):
    word: str  # "" for plain text
    path: tuple[str, ...]  # behind `arg`
    value: str
    column: int  # of the term
    at: int  # of the value


def parse(text: str, now: int) -> Filter:
    """Read a filter; ``now``: the instant from which lengths of time are counted back.

    >>> parse("state:dead queue:mail", 0).states
    frozenset({<State.DISCARDED: 'discarded'>})
    >>> parse("stat:dead", 0)
    Traceback (most recent call last):
    onward.operate.filters.FilterError: filter, column 1: there is no word 'stat': did you mean 'state'?
    """
    if not isinstance(text, str):
        raise OptionError(f"a filter is text such as 'state:dead queue:mail', not {type(text).__name__}")
    if len(text) > _LONGEST:
        raise FilterError(_LONGEST + 1, f"it has {len(text):,} characters, and the limit is {_LONGEST:,}: shorten it")
    found, shown = _Reading(now), list[str]()
    for number, term in enumerate(_terms(text), start=1):
        if number > _MOST:
            raise FilterError(term.column, f"it has more than {_MOST} words: leave some out")
        found.add(term)
        shown.append(_shown(term))
    return msgspec.structs.replace(found.filter(text), shown=" ".join(shown))


def _shown(term: _Term) -> str:
    word = ".".join((term.word, *term.path)) + ":" if term.word else ""
    return word + (MASK if any(map(is_telling, term.path)) else quoted(term.value))


def quoted(value: str) -> str:
    r"""Return a value as it is written in a filter.

    >>> quoted("mail"), quoted('say "hi"')
    ('mail', '"say \\"hi\\""')
    """
    plain = _BARE.fullmatch(value) is not None and '"' not in value
    return value if plain else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _terms(text: str) -> Iterator[_Term]:
    at = 0
    while True:
        at += len(text[at:]) - len(text[at:].lstrip())
        if at == len(text):
            return
        start, word, path = at, "", tuple[str, ...]()
        if (named := _WORD.match(text, at)) is not None:
            word, path, at = named[1], tuple(named[2].split(".")[1:]), named.end()
        value_at = at
        value, at = _value(text, at, word)
        yield _Term(word, path, value, start + 1, value_at + 1)


def _value(text: str, at: int, word: str) -> tuple[str, int]:
    """Read a value, in quotes or up to the next blank; return it and where it ends."""
    if text[at : at + 1] == '"':
        inside = _QUOTED.match(text, at)
        if inside is None:
            raise FilterError(at + 1, 'the quotes are not closed: add a " at the end')
        if inside.end() < len(text) and not text[inside.end()].isspace():
            raise FilterError(inside.end() + 1, 'a blank must follow the closing ": add one')
        return re.sub(r"\\(.)", r"\1", inside[1], flags=re.DOTALL), inside.end()
    bare = _BARE.match(text, at)
    if bare is None:
        raise FilterError(at + 1, f"{word}: has no value: write it without a blank, as in {word}:value")
    return bare[0], bare.end()


class _Reading:
    """Collects the terms of one filter."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.names: dict[str, str] = {}  # queue, job and group, that are compared by the store
        self.named: set[str] = set()
        self.ids: tuple[str, ...] | None = None
        self.states: set[State] = set()
        self.since: int | None = None
        self.until: int | None = None
        self.tests: list[Test] = []

    def filter(self, text: str) -> Filter:
        if "node" in self.names and "flow" not in self.names:
            raise FilterError(1, "node: names a node of a flow: write the flow, too, as flow:0199a4c1…")
        return Filter(
            text=text.strip(),
            states=frozenset(self.states) or None,
            queue=self.names.get("queue"),
            job=self.names.get("job"),
            group=self.names.get("group"),
            ids=self.ids,
            flow=self.names.get("flow"),
            node=self.names.get("node"),
            first=None if self.since is None else earliest_id(self.since),
            beyond=None if self.until is None else earliest_id(self.until + _MILLISECOND),
            tests=tuple(self.tests),
        )

    def add(self, term: _Term) -> None:
        word = term.word.lower()
        read = _READERS.get(word)
        if read is None or (term.path and word != "arg"):
            raise _unknown(term, word)
        if not term.value:
            raise FilterError(term.at, f"{word or 'text'} has no value: write one, or leave it out")
        read(self, term)


def _unknown(term: _Term, word: str) -> FilterError:
    written = ".".join((term.word, *term.path))
    fix = "; only arg has parts, as in arg.user_id:42" if term.path else suggestion(word, filter(None, _READERS))
    colon = "" if "did you mean" in fix else f'; text with a colon is written in quotes: "{written}:{term.value}"'
    return FilterError(term.column, f"there is no word {written!r}{fix}{colon:.80}")


def _read_text(reading: _Reading, term: _Term) -> None:
    wanted = term.value.casefold()
    reading.tests.append(lambda candidate: wanted in candidate.text)


def _read_state(reading: _Reading, term: _Term) -> None:
    at = term.at
    for given in term.value.split(","):
        word = given.lower()
        if word not in list(State) and word not in STATE_WORDS:
            raise FilterError(at, f"there is no state {given!r}{suggestion(word, [*State, *STATE_WORDS])}")
        reading.states.add(STATE_WORDS.get(word) or State(word))
        at += len(given) + 1


def _read_name(reading: _Reading, term: _Term) -> None:
    word = term.word.lower()
    if word in reading.named:
        raise FilterError(term.column, f"{word} is named twice, and a job has one: leave one out, or use *")
    reading.named.add(word)
    if "*" not in term.value:
        reading.names[word] = term.value
        return
    if word == "group":
        raise FilterError(term.at, "a group is named by its beginning, without *: `onward dead groups` lists them")
    if word in ("flow", "node"):
        raise FilterError(term.at, f"a {word} is named in full, without *: `onward flow list` lists flows")
    matches, is_queue = like(term.value), word == "queue"
    reading.tests.append(lambda each: matches(each.stored.queue if is_queue else each.stored.job))


def _read_ids(reading: _Reading, term: _Term) -> None:
    at, ids = term.at, set[str]()
    for given in term.value.split(","):
        job_id = given.replace("-", "").lower()
        if not _ID.fullmatch(job_id):
            raise FilterError(at, f"{given!r:.40} is no id of a job: it has 32 of the characters 0 to 9 and a to f")
        ids.add(job_id)
        at += len(given) + 1
    reading.ids = tuple(sorted(ids if reading.ids is None else ids & set(reading.ids)))


def _read_instant(reading: _Reading, term: _Term) -> None:
    at, word = _instant(term, reading.now), term.word.lower()
    match word:
        case "since":
            reading.since = at if reading.since is None else max(at, reading.since)
        case "until":
            reading.until = at if reading.until is None else min(at, reading.until)
        case "ended-since":
            reading.tests.append(lambda each: each.stored.finished_at is not None and each.stored.finished_at >= at)
        case _:
            reading.tests.append(lambda each: each.stored.finished_at is not None and each.stored.finished_at <= at)


def _instant(term: _Term, now: int) -> int:
    """Return the instant that a text names, or that lies so far back."""
    text = term.value
    try:
        if text[:4].isdecimal() and text[4:5] == "-":
            return instant(datetime.fromisoformat(text), term.word)
        return now - round(seconds(text, term.word) * SECOND)
    except (InvalidTime, ValueError):
        raise FilterError(
            term.at,
            f"{text!r:.40} is no time: write how long ago, 90s, 10m, 2h or 7d, or an instant, 2030-01-31T12:00Z",
        ) from None


def _read_by(reading: _Reading, term: _Term) -> None:
    matches = like(term.value)
    reading.tests.append(lambda candidate: any(map(matches, candidate.workers)))


def _read_error(reading: _Reading, term: _Term) -> None:
    matches = like(f"*{term.value}*")
    reading.tests.append(lambda candidate: any(map(matches, candidate.troubles)))


def _read_argument(reading: _Reading, term: _Term) -> None:
    if not term.path:
        raise FilterError(term.column, "arg names no argument: write arg.user_id:42")
    path, matches = term.path, like(term.value)
    reading.tests.append(lambda candidate: any(map(matches, candidate.argument(path))))


_READERS: Mapping[str, Callable[[_Reading, _Term], None]] = {
    "": _read_text,
    "state": _read_state,
    "queue": _read_name,
    "job": _read_name,
    "group": _read_name,
    "id": _read_ids,
    "flow": _read_name,
    "node": _read_name,
    "since": _read_instant,
    "until": _read_instant,
    "ended-since": _read_instant,
    "ended-until": _read_instant,
    "by": _read_by,
    "error": _read_error,
    "arg": _read_argument,
}


def _before(job_id: str | None) -> str | None:
    """Return the id just before another one."""
    if job_id is None or not int(job_id, 16):
        return None
    return f"{int(job_id, 16) - 1:032x}"
