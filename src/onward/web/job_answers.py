"""What the API answers about one job, and about jobs in a list."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

__all__ = [
    "ActView",
    "ArgumentView",
    "AuditView",
    "EventView",
    "FrameView",
    "JobAnswer",
    "JobRowView",
    "JobsAnswer",
    "NoteView",
    "ReasonView",
    "RunView",
    "StackAnswer",
    "TabView",
]


class AuditView(msgspec.Struct, frozen=True, kw_only=True):
    """One act of a person."""

    at: datetime
    who: str
    act: str
    detail: str  # the reason that was given
    ref: str  # what it is about if not a job
    job_id: str  # "": no job
    trust: str  # "verified", "unsigned", …; "altered": its signature does not match what it says
    place: str
    text: str  # in one line: "pause mail: deploy of 1.4"
    page: str  # where to look, relative to the dashboard; "": nowhere


class JobRowView(msgspec.Struct, frozen=True, kw_only=True):
    """A job in a list."""

    id: str
    name: str
    queue: str
    state: str
    enqueued_at: datetime
    when: datetime | None  # the instant that matters in this state
    when_is: Literal["due", "began", "ended", "waits"]  # waits: for its workflow or a signal, so for no instant
    tries: str  # runs of how many: "2/6"
    error: str | None  # the last one, or the reason of the end, in one line
    progress: float | None  # between 0 and 1
    lane: str | None
    flow: str | None
    damaged: bool


class TabView(msgspec.Struct, frozen=True, kw_only=True):
    """A state, and how many jobs are in it, whatever the filter says."""

    state: str
    count: int
    or_more: bool


class JobsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A page of jobs, newest first."""

    at: datetime
    filter: str  # as it was read
    jobs: list[JobRowView]
    next: str | None  # `after` of the next page; None: there is no more
    looked: int
    text: str  # how far it looked, and what was not compared; "": nothing is to be said
    empty: str  # of no job at all: which part of the filter leaves none; "": it is not empty
    tabs: list[TabView]  # [] where the store cannot count


class ReasonView(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job is where it is."""

    code: str
    text: str
    fix: str  # what to type; "": nothing
    until: datetime | None  # when it passes by itself
    exact: bool  # whether ``until`` is that instant, or an estimate
    facts: str  # the numbers and ids behind the sentence, as JSON text
    then: list[str]  # the codes of what would hold it next
    act: str | None  # the act of this API that does the fix: "retry", "resume", …; None: none does
    job_id: str | None  # the other job that the reason names


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a job, or will."""

    at: datetime
    kind: Literal["enqueued", "due", "started", "failed", "crashed", "ended", "note", "audit", "retry"]
    text: str
    detail: str = ""  # a traceback
    place: str = ""  # host, process and build
    state: str = ""  # of "ended": the state
    altered: bool = False  # of "audit": its signature does not match
    is_to_come: bool = False


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run that did not succeed."""

    attempt: int
    kind: str
    message: str
    traceback: str
    at: datetime
    duration_ms: int
    host: str | None
    pid: int | None
    build: str | None
    fingerprint: str


class NoteView(msgspec.Struct, frozen=True, kw_only=True):
    """A step, a sleep, a wait or a signal."""

    kind: Literal["step", "sleep", "wait", "signal"]
    name: str
    at: datetime


class ActView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be done to a job."""

    act: Literal["retry", "cancel", "replay", "edit", "signal", "stack"]
    possible: bool
    reason: str  # why not; "": it is possible


class ArgumentView(msgspec.Struct, frozen=True, kw_only=True):
    """An argument of a dead job, for the form in which it is edited."""

    name: str
    text: str  # JSON; masked where it is secret
    secret: bool  # it must be typed anew, or left as it is
    type: str  # in the words of the signature; "": not known


class JobAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known about one job."""

    at: datetime
    job: JobRowView
    handler: str  # the name by which it is registered, if it has another one
    why: ReasonView | None  # None: the store cannot say
    timeline: list[EventView]  # by time
    runs: list[RunView]
    notes: list[NoteView]
    audit: list[AuditView]
    retries: list[datetime]  # when it would run again, if every run fails; without jitter
    arguments: str  # rendered JSON, secrets masked
    arguments_note: str  # why they are not shown; "": they are
    meta: str
    result: str | None  # None: it has none
    result_note: str
    reason: str | None  # of its end
    progress: float | None
    progress_note: str
    priority: int
    attempts: int
    max_attempts: int | None
    crashes: int
    interruptions: int
    available_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    cancel_requested: bool
    waiting_for: str | None
    owner: str | None
    worker: str | None  # "host, process 123"
    flow: str | None
    node: str | None
    group: str | None  # the fingerprint of a dead job
    edited_from: str | None
    damage: str | None
    acts: list[ActView]
    editable: list[ArgumentView]  # of a dead job with named arguments
    as_python: str
    as_command: str
    log_url: str | None
    trace_url: str | None


class FrameView(msgspec.Struct, frozen=True, kw_only=True):
    function: str
    file: str
    line: int
    code: str


class StackAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a job does just now."""

    pid: int
    where: str  # thread or task
    frames: list[FrameView]  # the innermost last
    text: str  # the same as text
