"""The route table: routing, roles, checks of queries and bodies, OpenAPI and the types of the page are made from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, get_args

import msgspec

from onward.web import act_answers, answers, job_answers, page_answers, questions

__all__ = ["API", "ROLES", "ROUTES", "Role", "Route"]

API = "api/v1/"

Role = Literal["viewer", "operator", "admin"]
ROLES: Sequence[Role] = get_args(Role)  # each may do what those before it may

_FILLED = re.compile(r"\{(\w+)\}")


class Route(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One method on one path."""

    method: Literal["GET", "POST"]
    path: str  # below where the dashboard is mounted; parts in braces are filled in
    summary: str
    answer: Any  # the type of what it returns; str: plain text
    role: Role | None = "viewer"  # None: open to everybody
    query: type = questions.NoQuery
    body: type | None = None
    streams: bool = False  # the answer is lines of JSON, each an ``answer``
    everywhere: bool = False  # it concerns all queues: refused to a person who sees only some
    act: str | None = None  # the word for what it does, in `SessionAnswer.acts`

    @cached_property
    def parameters(self) -> list[str]:
        return _FILLED.findall(self.path)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The path as an expression."""
        return re.compile(
            "".join(f"(?P<{part[1:-1]}>[^/]+)" if part[:1] == "{" else re.escape(part) for part in self._parts)
        )

    @cached_property
    def _parts(self) -> list[str]:
        return re.split(r"(\{\w+\})", self.path)


def _get(path: str, summary: str, answer: Any, **more: Any) -> Route:
    return Route(method="GET", path=API + path, summary=summary, answer=answer, **more)


def _post(path: str, summary: str, body: type, act: str, **more: Any) -> Route:
    more = {"answer": act_answers.DoneAnswer, "role": "operator", **more}
    return Route(method="POST", path=API + path, summary=summary, body=body, act=act, **more)


_a, _p, _j, _d, _q = answers, page_answers, job_answers, act_answers, questions

ROUTES: Sequence[Route] = (
    _get("session", "Who looks, what they may do, and what the store can do.", _a.SessionAnswer),
    _get("pulse", "What the overview shows; one look at the store for all who ask within two seconds.", _a.PulseAnswer),
    _get("series", "The points of charts.", _a.SeriesAnswer, query=_q.SeriesAsked),
    _get("queues", "Queues, those in trouble first.", _a.QueuesAnswer),
    _get("queues/{queue}", "One queue.", _a.QueueAnswer),
    _get("jobs", "A page of jobs that match a filter, newest first.", _j.JobsAnswer, query=_q.JobsAsked),
    _get("jobs/{id}", "Everything known about a job.", _j.JobAnswer),
    _get("jobs/{id}/why", "Why a job is where it is.", _j.ReasonView),
    _get("jobs/{id}/stack", "The Python stack of a job that runs on this machine.", _j.StackAnswer),
    _get("groups", "Dead jobs in groups, largest first.", _p.GroupsAnswer, query=_q.GroupsAsked),
    _get("groups/{fingerprint}", "One group of dead jobs.", _p.GroupAnswer, query=_q.GroupAsked),
    _get("workers", "Workers, and the jobs that run.", _p.WorkersAnswer),
    _get("schedules", "Schedules, each with its next five times.", _p.SchedulesAnswer),
    _get("schedules/{name}", "One schedule, with its last jobs.", _p.ScheduleAnswer),
    _get("flows", "Flows, newest first.", _p.FlowsAnswer, query=_q.FlowsAsked, everywhere=True),
    _get("flows/{id}", "One flow as a graph, with its layout.", _p.FlowAnswer, everywhere=True),
    _get("limits", "Limits, and how much of them is used.", _a.LimitsAnswer),
    _get("health", "Every check, versions, and what the store can do.", _a.HealthAnswer),
    _get("audit", "What people did by hand, newest first.", _a.AuditAnswer, query=_q.AuditAsked, everywhere=True),
    _get("openapi.json", "This API as OpenAPI 3.1.", dict[str, Any], role=None),
    _post("login", "Exchange a token for a cookie.", _q.LoginBody, "", answer=_a.SessionAnswer, role=None),
    _post("logout", "Remove the cookie.", _q.NoBody, "", role=None),
    _post("queues/{queue}/pause", "Stop claims from a queue.", _q.ReasonBody, "pause"),
    _post("queues/{queue}/resume", "Allow claims from a queue again.", _q.ReasonBody, "pause"),
    _post("jobs/{id}/retry", "Run a waiting job now, or put an ended one back.", _q.ReasonBody, "retry"),
    _post("jobs/{id}/cancel", "Cancel a job that waits, ask one that runs to stop.", _q.ReasonBody, "cancel"),
    _post("jobs/{id}/replay", "Put a dead or cancelled job back in its queue.", _q.ReplayBody, "replay"),
    _post("jobs/{id}/signal", "Tell a job what it waits for.", _q.SignalBody, "signal"),
    _post(
        "jobs/{id}/edit",
        "Enqueue a dead job with other arguments, as a new job.",
        _q.EditBody,
        "edit",
        answer=_d.EditAnswer,
        role="admin",
    ),
    _post("flows/{id}/cancel", "Cancel a flow.", _q.ReasonBody, "flow", everywhere=True),
    _post("flows/{id}/retry", "Replay what failed in a flow.", _q.ReasonBody, "flow", everywhere=True),
    _post("schedules/{name}/run", "Enqueue the job of a schedule now.", _q.ReasonBody, "schedule"),
    _post("schedules/{name}/pause", "Book nothing more for a schedule.", _q.ReasonBody, "schedule"),
    _post("schedules/{name}/resume", "Book a schedule again, from now on.", _q.ReasonBody, "schedule"),
    _post("limits/set", "Set a limit, which beats the code.", _q.LimitBody, "limit"),
    _post("limits/clear", "Let the code decide again.", _q.LimitPlaceBody, "limit"),
    _post("limits/shut", "Start no job of a name any more.", _q.LimitGateBody, "limit", everywhere=True),
    _post("limits/open", "Start jobs of a name again.", _q.LimitGateBody, "limit", everywhere=True),
    _post(
        "bulk/preview", "Count what a bulk act would change.", _q.PreviewBody, "bulk", answer=_d.PreviewAnswer
    ),  # a purge asks for the role of an admin
    _post("bulk/run", "Do what was previewed, batch by batch.", _q.BulkAsked, "bulk", answer=_d.BulkLine, streams=True),
    _post(
        "canary",
        "Replay dead jobs: one, then ten, then the rest, and none after one that fails again.",
        _q.CanaryBody,
        "canary",
        answer=_d.CanaryLine,
        streams=True,
    ),
    Route(method="GET", path="metrics", summary="What the store holds, for Prometheus.", answer=str, everywhere=True),
    Route(method="GET", path="livez", summary="Whether this process answers.", answer=str, role=None),
    Route(method="GET", path="readyz", summary="Whether the store answers.", answer=str, role=None),
)
