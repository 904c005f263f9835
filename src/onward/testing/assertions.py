"""Assertions about enqueued jobs: a failure lists the jobs that were enqueued instead, the nearest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from onward.app import Onward
from onward.base.durations import Duration, instant, seconds
from onward.client.bound_job import Job
from onward.client.record import JobRecord
from onward.errors import ArgumentError, OptionError
from onward.job.arguments import Arguments, encode_value
from onward.job.states import FINISHED, State
from onward.testing.calls import AnyJob, arguments_of, function_of

__all__ = ["assert_enqueued", "assert_not_enqueued"]

_PAGE = 500
_SHOWN = 10
_SHORT = 120
_NO_OTHER_JOB = 100  # differences that a wrong name weighs
_SLACK = timedelta(seconds=1)  # between two readings of a clock that runs; a `FakeClock` needs none


def assert_enqueued(
    jobs: Onward,
    job: AnyJob | str,
    /,
    *args: Any,
    queue: str | None = None,
    count: int | None = None,
    priority: int | None = None,
    delay: Duration | None = None,
    at: datetime | None = None,
    meta: Mapping[str, Any] | None = None,
    payload: Any = None,
    finished: bool = False,
    **kwargs: Any,
) -> list[JobRecord]:
    """Pass if such a job is enqueued, or exactly ``count`` of them; returns them in the order they were enqueued.

    Without arguments, any call matches; with arguments, those that the handler would see as this call: a default that was
    left out equals one that was given.  ``payload`` and ``meta`` name only what must be in them; ``delay`` and ``at`` are
    compared to the second.  Looks at the jobs that wait or run, and with ``finished=True`` also at those that have ended.
    """
    options = {"queue": queue, "priority": priority, "delay": delay, "at": at, "meta": meta, "payload": payload}
    wanted = _Wanted.of(job, args, kwargs, options, others=_said({"count": count, "finished": finished or None}))
    candidates = [_Candidate(record, wanted.differences(record)) for record in _records(jobs)]
    looked_at = [each for each in candidates if finished or each.is_live]
    found = [each.record for each in looked_at if each.matches]
    if len(found) == count or (count is None and found):
        return found
    how_many = "at least 1" if count is None else str(count)
    raise AssertionError(
        f"expected {how_many} of {wanted}, found {len(found)}{_hint(candidates, finished)}\n{_listing(looked_at, finished)}"
    )


def assert_not_enqueued(
    jobs: Onward,
    job: AnyJob | str,
    /,
    *args: Any,
    queue: str | None = None,
    priority: int | None = None,
    delay: Duration | None = None,
    at: datetime | None = None,
    meta: Mapping[str, Any] | None = None,
    payload: Any = None,
    finished: bool = False,
    **kwargs: Any,
) -> None:
    """Pass if no such job is enqueued.  The arguments are those of `assert_enqueued`."""
    options = {"queue": queue, "priority": priority, "delay": delay, "at": at, "meta": meta, "payload": payload}
    wanted = _Wanted.of(job, args, kwargs, options, others=_said({"finished": finished or None}))
    candidates = [_Candidate(record, wanted.differences(record)) for record in _records(jobs)]
    found = [each for each in candidates if each.matches and (finished or each.is_live)]
    if found:
        raise AssertionError(f"expected no {wanted}, found {len(found)}\n{_listing(found, finished)}")


class _Wanted:
    """The job that a test expects."""

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any],
        *,
        call: dict[str, Any] | None = None,  # the payload of the whole call; None: any
        arguments: Arguments | None = None,
    ) -> None:
        self._name = name
        self._options = _checked(options)
        self._call = call
        self._arguments = arguments

    @classmethod
    def of(
        cls,
        job: AnyJob | str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: Mapping[str, Any],
        others: Mapping[str, Any],
    ) -> _Wanted:
        said = _said(options)
        if isinstance(job, Job):
            any_call = not args and not kwargs
            own_args, own_kwargs = arguments_of(job, args, kwargs, (*said, *others))
            arguments = Arguments(function_of(job), job.name)
            call = None if any_call else msgspec.json.decode(arguments.pack(own_args, own_kwargs))
            return cls(job.name, said, call=call, arguments=arguments)
        if not isinstance(job, str):
            raise OptionError(f"name a job that @jobs.job made, or its name as text, not {job!r:.60}")
        if args:
            raise OptionError(f"{job!r} is only a name, so its parameters are unknown: give arguments by name")
        return cls(job, said, call=_plain(kwargs) if kwargs else None)

    def differences(self, record: JobRecord) -> list[str]:
        """Yield the differences between a job and the expected one."""
        return list(self._differences(record))

    def _differences(self, record: JobRecord) -> Iterator[str]:
        if self._name not in (record.job, record.name):
            yield "another job"
        elif self._call is not None and not self._same_call(record.reveal()):
            yield from _missing(self._call, record.reveal(), "", exactly=True)
        for option, value in self._options.items():
            match option:
                case "queue" | "priority":
                    if getattr(record, option) != value:
                        yield f"{option} is {getattr(record, option)!r}, not {value!r}"
                case "delay" | "at":
                    due = record.enqueued_at + value if option == "delay" else value
                    if abs(record.available_at - due) >= _SLACK:
                        yield f"due {_when(record)}, not {_span(due - record.enqueued_at)}"
                case "meta":
                    yield from _missing(value, record.meta, "meta ")
                case _:
                    yield from _missing(value, record.reveal(), "")

    def _same_call(self, payload: Any) -> bool:
        """Return whether the handler would get the same arguments: as they were stored, or with its defaults."""
        if payload == self._call:
            return True
        if self._arguments is None:
            return False
        try:
            stored, asked = (self._arguments.unpack(msgspec.json.encode(each)) for each in (payload, self._call))
        except Exception:  # noqa: BLE001  stored with what this handler cannot be called with; a model may raise anything
            return False
        return stored == asked

    def __str__(self) -> str:
        words = [f"{self._name}({'…' if self._call is None else _call_text(self._call)})"]
        for option, value in self._options.items():
            words.append(f"{option} {value}" if option in ("delay", "at") else f"{option} {value!r}")
        return " with ".join([words[0], ", ".join(words[1:])]) if words[1:] else words[0]


class _Candidate(NamedTuple):
    record: JobRecord
    differences: Sequence[str]

    @property
    def matches(self) -> bool:
        return not self.differences

    @property
    def is_live(self) -> bool:
        return self.record.state not in FINISHED

    @property
    def distance(self) -> int:
        return sum(_NO_OTHER_JOB if each == "another job" else 1 for each in self.differences)

    def __str__(self) -> str:
        record = self.record
        call = _call_text(record.payload) if isinstance(record.payload, dict) else repr(record.payload)
        facts = [f"queue {record.queue}", str(record.state)]
        if record.state in (State.SCHEDULED, State.RETRYABLE):
            facts.append(f"due {_when(record)}")
        if record.priority:
            facts.append(f"priority {record.priority}")
        text = f"{_shortened(f'{record.name}({call})')} [{', '.join(facts)}]"
        return f"{text}: {_shortened('; '.join(self.differences))}" if self.differences else text


def _records(jobs: Onward) -> Iterator[JobRecord]:
    after: str | None = None
    while page := jobs.list(limit=_PAGE, after=after):
        yield from page
        after = page[-1].id


def _said(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _checked(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in the form in which a record has them."""
    if "delay" in said and "at" in said:
        raise OptionError("give delay or at, not both")
    checked = dict(said)
    if "delay" in said:
        checked["delay"] = timedelta(seconds=seconds(said["delay"], "delay"))
    if "at" in said:
        instant(said["at"], "at")
        checked["at"] = said["at"].astimezone(UTC)
    for name in ("meta", "payload"):
        if name in said:
            checked[name] = _plain(said[name])
    return checked


def _plain(value: Any) -> Any:
    """Return a value as it is after travelling as JSON."""
    try:
        return msgspec.json.decode(encode_value(value))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise ArgumentError(f"no job can carry this value: {error}") from None


def _missing(wanted: Any, got: Any, what: str, *, exactly: bool = False) -> Iterator[str]:
    """Yield where ``got`` lacks what is wanted; ``exactly``: or has more."""
    if not isinstance(wanted, dict) or not isinstance(got, dict):
        if wanted != got:
            yield f"{what or 'payload '}is {got!r}, not {wanted!r}"
        return
    for key, value in wanted.items():
        if key not in got:
            yield f"{what}{key} was not given, not {value!r}"
        elif got[key] != value:
            yield f"{what}{key} is {got[key]!r}, not {value!r}"
    if exactly:
        yield from (f"{what}{key}={got[key]!r} was given too" for key in got if key not in wanted)


def _hint(candidates: Sequence[_Candidate], finished: bool) -> str:
    ended = sum(each.matches and not each.is_live for each in candidates)
    if finished or not ended:
        return ""
    return f" ({ended} that {'has' if ended == 1 else 'have'} ended: finished=True counts them too)"


def _listing(candidates: Sequence[_Candidate], finished: bool) -> str:
    if not candidates:
        return "nothing was enqueued" if finished else "nothing waits or runs"
    nearest = sorted(candidates, key=lambda each: each.distance)
    lines = [f"    {each}" for each in nearest[:_SHOWN]]
    if len(nearest) > _SHOWN:
        lines.append(f"    and {len(nearest) - _SHOWN} more")
    return "\n".join(["enqueued:", *lines])


def _call_text(payload: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in payload.items())


def _when(record: JobRecord) -> str:
    return _span(record.available_at - record.enqueued_at)


def _span(length: timedelta) -> str:
    return f"{length} after it was enqueued" if length else "at once"


def _shortened(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"
