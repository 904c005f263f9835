"""Limits: looking at them, setting and clearing them, shutting and opening jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from onward.web.act_answers import DoneAnswer
from onward.web.answers import LimitsAnswer
from onward.web.asking import WebCall
from onward.web.failures import Refused
from onward.web.views import limit_view

__all__ = ["clear", "limits", "open_again", "set_limit", "shut"]

_MOST = 1_000


def limits(asked: WebCall) -> LimitsAnswer:
    """Return the limits; to who sees some queues only, those of these queues."""
    found = asked.jobs.limits.list(at_most=_MOST)
    if asked.user.queues is not None:
        found = [each for each in found if each.kind == "queue" and asked.user.sees(each.name)]
    return LimitsAnswer(at=datetime.now(UTC), limits=[limit_view(each) for each in found])


def set_limit(asked: WebCall) -> DoneAnswer:
    body = asked.body
    asked.jobs.limits.set(**_place(asked), running=body.running, rate=body.rate, burst=body.burst, **_by(asked))
    return _done(asked, "set")


def clear(asked: WebCall) -> DoneAnswer:
    asked.jobs.limits.clear(**_place(asked), **_by(asked))
    return _done(asked, "cleared: the code decides again")


def shut(asked: WebCall) -> DoneAnswer:
    asked.jobs.limits.shut(asked.body.job, **_by(asked))
    return _done(asked, f"{asked.body.job} is shut: nothing of it starts until it is opened")


def open_again(asked: WebCall) -> DoneAnswer:
    asked.jobs.limits.open(asked.body.job, **_by(asked))
    return _done(asked, f"{asked.body.job} is open")


def _place(asked: WebCall) -> dict[str, Any]:
    kind, name = asked.body.kind, asked.body.name
    if kind == "queue":
        asked.check_queue(name)
        return {"queue": name}
    if asked.user.queues is not None:
        raise Refused(403, "forbidden", "the limit of a job concerns all queues, and you see only some")
    return {"job": name, "each_key": kind == "key"}


def _by(asked: WebCall) -> dict[str, Any]:
    return {"by": asked.who, "reason": asked.body.reason}


def _done(asked: WebCall, text: str) -> DoneAnswer:
    asked.changed()
    return DoneAnswer(done=True, text=text)
