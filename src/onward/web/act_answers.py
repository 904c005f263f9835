"""What the API answers to acts.  Those of many jobs are streams: a line for each batch or step."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from onward.web.answers import NameCount
from onward.web.job_answers import JobRowView, ReasonView

__all__ = [
    "BulkLine",
    "CanaryLine",
    "ChangeView",
    "DoneAnswer",
    "EditAnswer",
    "PreviewAnswer",
    "QueueStateCount",
]


class DoneAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an act on one thing."""

    done: bool  # False: there was nothing to change
    text: str
    id: str | None = None  # of the job or flow that was made


class QueueStateCount(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    state: str
    count: int


class PreviewAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a bulk act would change."""

    act: Literal["retry", "cancel", "replay", "purge"]
    filter: str
    count: int
    exact: bool  # False: there may be more
    by_queue: list[QueueStateCount]
    samples: list[JobRowView]
    text: str  # the act in a sentence: "Replay 312 dead jobs of queue mail"
    ticket: str | None  # what `bulk/run` takes; None: nothing matches
    expires_at: datetime | None
    destructive: bool  # the number has to be typed first


class BulkLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a bulk act: one for each batch, and a last one with ``over``.  Numbers are of all batches so far."""

    done: int
    looked: int
    skipped: int
    reasons: list[NameCount]  # why jobs of this batch were left alone
    text: str
    over: bool = False
    error: str | None = None  # why it stopped early


class CanaryLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a canary.  Numbers are of all steps so far."""

    happened: Literal["replayed", "waiting", "passed", "failed", "impatient", "finished", "error"]
    step: int
    replayed: int
    ended: int
    text: str
    job_id: str | None = None  # that failed, or is waited for
    why: ReasonView | None = None
    skipped: int = 0
    over: bool = False  # it is the last line
    stopped: bool = False  # it gave up: what was not replayed is still dead


class ChangeView(msgspec.Struct, frozen=True, kw_only=True):
    """One argument before and after an edit, as JSON text; None: it was not, or is not given."""

    name: str
    before: str | None
    after: str | None


class EditAnswer(msgspec.Struct, frozen=True, kw_only=True):
    id: str  # of the new job
    changes: list[ChangeView]
    checked: bool  # whether the arguments were compared with the job's signature
    doubt: str  # of arguments that were not: which of them the job did not have before
    enqueued: bool  # False: it was asked for the difference only, or another job holds the unique key
    text: str
