"""What the API answers about dead letters, workers, schedules and flows."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from onward.web.answers import NameCount, StateCount, WorkersSummary
from onward.web.job_answers import AuditView, JobRowView

__all__ = [
    "ArrowView",
    "BoxView",
    "FlowAnswer",
    "FlowView",
    "FlowsAnswer",
    "GoneWorkerView",
    "GraphView",
    "GroupAnswer",
    "GroupView",
    "GroupsAnswer",
    "RunningView",
    "SampleView",
    "ScheduleAnswer",
    "ScheduleView",
    "SchedulesAnswer",
    "TickView",
    "WorkerView",
    "WorkersAnswer",
]


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """Dead jobs of one name whose last failure is the same one."""

    job: str
    fingerprint: str
    count: int
    or_more: bool
    kind: str  # "": no record tells it
    place: str | None  # "file:line in function"
    first: datetime
    last: datetime
    builds: list[str]
    filter: str  # that finds its jobs
    deaths: list[int]  # of this job, whatever the failure, in the last three hours by ten minutes, the newest last


class GroupsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    groups: list[GroupView]  # largest first
    more: bool  # there are more than the hundred that are shown
    last_death: datetime | None


class SampleView(msgspec.Struct, frozen=True, kw_only=True):
    """A dead job of a group."""

    id: str
    at: datetime
    arguments: str
    note: str  # why the arguments are not shown; "": they are


class GroupAnswer(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    group: GroupView
    reason: str | None  # why the newest was given up
    message: str
    traceback: str
    hosts: list[NameCount]  # of the newest hundred
    builds: list[str]
    samples: list[SampleView]


class RunningView(msgspec.Struct, frozen=True, kw_only=True):
    """A job that runs."""

    id: str
    name: str
    queue: str
    attempt: int
    started_at: datetime | None
    owner: str | None
    host: str
    pid: int | None
    progress: float | None  # between 0 and 1
    progress_note: str
    p95: float | None  # seconds that 95 of 100 runs of this job took at most
    slow: bool  # it has run for more than ten times that, and more than a minute
    stack_here: bool  # its process is on this machine, so its stack can be asked for
    command: str  # what to type there instead


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A worker process, or a program with a worker inside."""

    owner: str
    host: str
    pid: int
    version: str
    build: str
    alive: bool
    renewed_at: datetime
    expires_at: datetime
    started_at: datetime | None
    busy: int  # jobs that it holds
    slots: int | None
    queues: list[str]  # names and patterns, in the order in which it serves them
    strict: bool  # it serves a queue only while those before it have nothing due
    jobs: int | None  # how many job names it knows
    inside: bool  # it is a program with a worker inside
    rss: int | None  # bytes, of a process on this machine


class GoneWorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that an earlier look saw and the last one did not."""

    host: str
    pid: int
    at: datetime
    cause: str | None  # None: it ended in order


class WorkersAnswer(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    summary: WorkersSummary
    workers: list[WorkerView]  # by host
    running: list[RunningView]  # longest first
    more_running: bool
    gone: list[GoneWorkerView]


class TickView(msgspec.Struct, frozen=True, kw_only=True):
    """An instant of a schedule."""

    at: datetime
    local: str  # in the zone of the schedule: "Wed 2030-01-02 09:00:00 +0100"


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    origin: Literal["code", "runtime"]
    cron: str | None  # None, as the next ones, if the specification cannot be read
    tz: str | None
    job: str | None
    flow: str | None
    queue: str | None
    arguments: str
    catch_up: str
    overlap: str
    spread: str  # "": none
    paused_at: datetime | None
    missed: int  # late ticks that did not run
    problem: str | None  # why nothing is booked for it
    late: str  # the check that it fails; "": none
    next: list[TickView]  # five; none while it is paused
    last: list[JobRowView]  # the job of the last tick; of one schedule the last twenty, newest first


class SchedulesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    schedules: list[ScheduleView]


class ScheduleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    schedule: ScheduleView
    audit: list[AuditView]


class FlowView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    state: Literal["running", "completed", "failed", "cancelled"]
    nodes: int
    jobs: int
    created_at: datetime
    over_at: datetime | None
    stop_on_failure: bool
    is_open: bool  # jobs may still be added from outside


class FlowsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    flows: list[FlowView]  # newest first
    next: str | None  # `after` of the next page; None: there is no more


class BoxView(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a flow, drawn: its place is in units of which a line of text is about 16 high."""

    id: str  # the name of the node; of nodes that are shown as one, a name that no node has
    label: str
    x: float
    y: float
    width: float
    height: float
    state: Literal["waiting", "open", "completed", "failed", "passed_over", "skipped"]
    when: str  # "", "if one failed", "either way"
    total: int
    counts: list[StateCount]
    text: str  # its jobs in words
    after: list[str]  # ids of the boxes that it comes after
    critical: bool  # on the longest path that is not over
    nodes: int  # how many nodes it stands for; 1 unless the graph is collapsed
    filter: str  # that finds its jobs; "": it stands for several nodes


class ArrowView(msgspec.Struct, frozen=True, kw_only=True):
    start: str  # ids of boxes
    end: str
    points: list[tuple[float, float]]  # a line through these
    critical: bool


class GraphView(msgspec.Struct, frozen=True, kw_only=True):
    """A graph with its layout: columns from left to right, each box behind those that it comes after."""

    width: float
    height: float
    boxes: list[BoxView]
    arrows: list[ArrowView]
    collapsed: bool  # more than 200 nodes: those with the same state and the same neighbours are shown as one
    summary: str  # the graph in a sentence, for people who do not see it


class FlowAnswer(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    flow: FlowView
    progress: float  # the part of its jobs that has ended, between 0 and 1
    graph: GraphView
    audit: list[AuditView]
