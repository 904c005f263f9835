"""What the API is asked: the queries of its URLs and the bodies of its requests.

Values that belong to jobs travel as JSON text, so that large integers stay exact.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from onward.backend import ACTS

__all__ = [
    "AuditAsked",
    "BulkAsked",
    "CanaryBody",
    "EditBody",
    "FlowsAsked",
    "GroupAsked",
    "GroupsAsked",
    "JobsAsked",
    "LimitBody",
    "LimitGateBody",
    "LimitPlaceBody",
    "LoginBody",
    "NoBody",
    "NoQuery",
    "PreviewBody",
    "ReasonBody",
    "ReplayBody",
    "SeriesAsked",
    "SignalBody",
]

LARGEST_PAGE = 200

PageSize = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE)]
Span = Literal["1h", "3h", "24h", "7d"]
# What these texts mean is checked by `onward.operate`; a schema can only name their form.
FilterText = Annotated[str, msgspec.Meta(max_length=2_000, extra_json_schema={"format": "onward-filter"})]
JobId = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
JsonText = Annotated[str, msgspec.Meta(extra_json_schema={"format": "json-text"})]
LengthOfTime = Annotated[str, msgspec.Meta(pattern=r"^[1-9][0-9]{0,3}[smhd]$")]
RateText = Annotated[str, msgspec.Meta(pattern=r"^[1-9][0-9]{0,3}/(s|min|h|day)$")]
QueueName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
JobName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_.:-]{0,199}$")]
StoredName = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]  # whatever a store holds
PersonName = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
AuditAct = Annotated[str, msgspec.Meta(extra_json_schema={"enum": sorted(ACTS)})]
Instant = Annotated[datetime, msgspec.Meta(tz=True)]
Number = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Why = Annotated[str, msgspec.Meta(max_length=500)]  # for the audit trail


class ApiQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A query or a body.  A field that does not exist is an error that names it."""


class NoQuery(ApiQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class NoBody(ApiQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class SeriesAsked(ApiQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    last: Span = "3h"
    queue: QueueName | None = None
    job: str | None = None
    since: Instant | None = None  # only points that began after it: those that the page lacks


class JobsAsked(ApiQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    filter: FilterText = ""
    limit: PageSize = 50
    after: JobId | None = None


class GroupsAsked(ApiQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    queue: QueueName | None = None
    job: JobName | None = None
    since: LengthOfTime | None = None  # how long ago: "2h"


class GroupAsked(ApiQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job: StoredName | None = None


class FlowsAsked(ApiQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str | None = None
    running: bool = False
    limit: PageSize = 50
    after: JobId | None = None


class AuditAsked(ApiQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    who: PersonName | None = None
    act: AuditAct | None = None
    ref: str | None = None
    job: str | None = None
    limit: PageSize = 50
    before: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,18}-[0-9]{1,18}$")] | None = None


class LoginBody(ApiQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: Annotated[str, msgspec.Meta(max_length=1_000)]


class ReasonBody(ApiQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Why = ""


class ReplayBody(ApiQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Why = ""
    fresh: bool = False  # without its notes: steps that were done are done again


class SignalBody(ApiQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: JobName
    value: JsonText = "null"
    again: bool = False  # replace a value that it was told before
    reason: Why = ""


class EditBody(ApiQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    set: dict[str, JsonText] = {}
    unset: list[str] = []
    payload: JsonText | None = None  # all arguments, instead of the two above
    dry_run: bool = False
    reason: Why = ""


class LimitPlaceBody(ApiQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["queue", "job", "key"]
    name: str
    reason: Why = ""


class LimitBody(ApiQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["queue", "job", "key"]
    name: str
    running: Number | None = None
    rate: RateText | None = None
    burst: Number | None = None
    reason: Why = ""


class LimitGateBody(ApiQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job: JobName
    reason: Why = ""


class PreviewBody(ApiQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    act: Literal["retry", "cancel", "replay", "purge"]
    filter: FilterText


class BulkAsked(ApiQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ticket: str
    reason: Why = ""
    fresh: bool = False  # of a replay


class CanaryBody(ApiQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    filter: FilterText
    steps: tuple[Number | Literal["all"], ...] = (1, 10, "all")  # "all" at the end only
    patience: LengthOfTime = "10m"
    rate: RateText = "50/s"
    reason: Why = ""
