"""What the API answers: values that a page draws as they are.

Python decides, the browser draws.  Arguments, results and tracebacks are text that was masked and rendered here; sentences
are finished; instants are aware, so that ages can be told against the clock of the answer (`at`).  A `Counted` number was
not counted beyond a limit.  None means "not known" unless a comment says otherwise.

`page_answers` has what pages show besides, `job_answers` what they show of jobs, `act_answers` what comes of acts.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from onward.web.job_answers import AuditView

__all__ = [
    "AuditAnswer",
    "CheckView",
    "Counted",
    "ErrorAnswer",
    "FactView",
    "HealthAnswer",
    "JobNameView",
    "LimitView",
    "LimitsAnswer",
    "MarkerView",
    "NameCount",
    "PointView",
    "PulseAnswer",
    "QueueAnswer",
    "QueueView",
    "QueuesAnswer",
    "SeriesAnswer",
    "SessionAnswer",
    "StateCount",
    "WorkersSummary",
]


class ErrorAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was refused, and what to do.  Every answer from 400 on has this form."""

    error: str  # a stable word: "unauthorized", "forbidden", "not_found", "bad_request", "conflict", "unsupported", …
    message: str
    fix: str = ""  # what to do; "": the message says it
    field: str | None = None  # of a 400: the field of the query or the body that is wrong
    column: int | None = None  # of a filter that cannot be read: where, counted from 1
    login: bool = False  # of a 401: whether a token can be given to `login`
    age: float | None = None  # of a 503: the seconds since the store last answered; None: it has not answered yet


class FactView(msgspec.Struct, frozen=True, kw_only=True):
    """A label and a text."""

    label: str
    text: str
    ok: bool = True


class NameCount(msgspec.Struct, frozen=True, kw_only=True):
    """A name, and how often it was met."""

    name: str
    count: int


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """A number that was not counted beyond a limit."""

    count: int
    or_more: bool = False  # shown as "10,000+"


class StateCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs are in a state."""

    state: str
    count: int
    or_more: bool = False


class SessionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Who looks, what that person may do, and what this store can do."""

    name: str
    role: Literal["viewer", "operator", "admin"]
    queues: list[str] | None  # the only queues that this person sees, names and patterns; None: all of them
    acts: list[str]  # what this person may do: "retry", "cancel", "replay", "signal", "edit", "purge", "pause", …
    unavailable: dict[
        str, str
    ]  # parts and acts that this store cannot offer, or not to this person, each with the reason
    title: str
    read_only: bool
    can_log_out: bool
    refresh: float  # seconds between two questions for `pulse`
    store: str  # its URL, without credentials
    namespace: str
    version: str
    build: str
    log_url: str | None  # templates with {job_id}, {from} and {to}; a job's own links are in its answer
    trace_url: str | None


class CheckView(msgspec.Struct, frozen=True, kw_only=True):
    """One check of health."""

    name: str
    status: Literal["ok", "warn", "fail"]
    detail: str
    fix: str  # "": nothing is to be done
    about: list[str]  # queues, jobs, hosts or schedules
    page: str  # where to look: the path of a page, relative to the dashboard, such as "queues/mail"; "": nowhere


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue at one moment."""

    name: str
    paused: bool
    paused_at: datetime | None
    paused_by: str | None  # who, and the reason; only in `queues` and `queues/{queue}`
    oldest_due: datetime | None  # since when the job that waits for longest could run; None: none is due
    due: Counted
    running: Counted
    retryable: Counted
    scheduled: Counted
    rate_in: float | None  # jobs a second, over the last five minutes; None: too few to say
    rate_out: float | None
    eta: float | None  # seconds until what is due has ended, if nothing is added
    p95: float | None  # seconds that 95 of 100 runs took at most
    servers: int | None  # live workers that serve it; None: not known
    trouble: str  # the check that it fails, in a word or two: "no worker", "late", "paused"; "": none
    limits: list[str]  # in short: "3 of 5 running", "100/min"
    depth: list[int | None]  # due jobs by the minute, of the last hour; None: no worker ran; only in `queues`


class WorkersSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The workers of a store in numbers."""

    live: int
    expired: int  # not renewed for a whole lease: their jobs are about to be given back
    hosts: int
    slots: int | None
    busy: int


class PulseAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the overview shows, and what every page shows at its edge.  It has an ETag: 304 means "as before"."""

    at: datetime  # of the look: ages are told against it
    needs_you: list[CheckView]  # checks that are not ok, worst first
    checked: bool  # False: the checks have not been made yet
    counts: list[StateCount]  # every state, in the order of a job's life
    per_second: float | None  # jobs that ended, between the last two looks
    rates: list[float]  # the same, of the last looks, the newest last
    queues: list[QueueView]  # those in trouble first, then by the age of their oldest due job
    workers: WorkersSummary
    dead_while_watching: int
    audit: list[AuditView]  # the last five entries
    empty: bool  # the store holds no job and no worker: the page teaches how to begin


class PointView(msgspec.Struct, frozen=True, kw_only=True):
    """A minute, or, two hours later, ten minutes.  A time in which no worker ran has no point."""

    at: datetime
    seconds: int  # how long the point is
    ended: int
    failed: int
    per_second: float
    run_p50: float | None  # milliseconds, as the next three
    run_p95: float | None
    wait_p50: float | None
    wait_p95: float | None
    depth: int | None
    oldest_age: int | None  # milliseconds


class MarkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A build of the application that began to run."""

    at: datetime
    build: str


class SeriesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The points of a chart, in the order of time."""

    since: datetime  # the first instant that the chart shows
    until: datetime
    points: list[PointView]
    markers: list[MarkerView]
    summary: str  # the chart in a sentence, for people who do not see it


class QueuesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    queues: list[QueueView]
    more: bool  # there are more than the hundred that are shown


class JobNameView(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one job's runs in a queue, within the last hour."""

    name: str
    ended: int
    failed: int
    run_p50: float | None  # milliseconds
    run_p95: float | None


class LimitView(msgspec.Struct, frozen=True, kw_only=True):
    """A limit, where it comes from, and how much of it is used."""

    kind: Literal["queue", "job", "key"]  # key: each key of a job
    name: str
    running: int | None  # how many may run at once
    rate: str | None  # such as "100/min"
    declared: str  # by the code; "": nothing
    chosen: str  # by people, which beats the code; "": nothing
    running_now: int | None
    tokens: int | None
    next_token_at: datetime | None
    is_shut: bool
    shut_until: datetime | None  # None although it is shut: until it is opened by hand
    text: str  # the limit and its use in short


class QueueAnswer(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    queue: QueueView
    jobs: list[JobNameView]
    limits: list[LimitView]
    servers: list[str]  # "host, process 123"
    audit: list[AuditView]


class LimitsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    limits: list[LimitView]


class HealthAnswer(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    checks: list[CheckView]  # worst first
    versions: list[FactView]
    capabilities: list[FactView]  # of the store; ``ok``: whether it has it


class AuditAnswer(msgspec.Struct, frozen=True, kw_only=True):
    entries: list[AuditView]  # newest first
    next: str | None  # `before` of the next page; None: there is no more
    acts: list[str]  # all words for `act`
