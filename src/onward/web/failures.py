"""Refusals as HTTP: a status, a stable word, a sentence, and what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from onward import errors
from onward.base.credentials import without_credentials
from onward.operate.filters import FilterError
from onward.web.answers import ErrorAnswer
from onward.worker.diagnostics.asking import StackUnavailable

__all__ = ["Refused", "refusal_of"]


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(
        self, status: int, error: str, message: str, *, headers: Mapping[str, str] | None = None, **more: object
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        self.answer = ErrorAnswer(error=error, message=message, **more)  # type: ignore[arg-type]


_STATUS: tuple[tuple[type[Exception], int, str], ...] = (  # the first that fits
    (FilterError, 400, "bad_filter"),
    (errors.JobNotFound, 404, "not_found"),
    (errors.FlowNotFound, 404, "not_found"),
    (errors.ScheduleNotFound, 404, "not_found"),
    (errors.LimitNotFound, 404, "not_found"),
    (errors.InvalidName, 404, "not_found"),  # nothing has a name that cannot be
    (errors.InvalidLimit, 409, "conflict"),
    (errors.ScheduleTaken, 409, "conflict"),
    (errors.QueueReserved, 409, "conflict"),
    (errors.KeyInUse, 409, "conflict"),
    (StackUnavailable, 409, "no_stack"),
    (errors.ArgumentError, 422, "arguments_do_not_fit"),
    (errors.PayloadTooLarge, 413, "too_large"),
    (errors.SigningKeyMissing, 409, "key_missing"),
    (errors.EnvelopeError, 409, "unreadable"),
    (errors.Unsupported, 501, "unsupported"),
    (errors.BackendRefused, 409, "refused"),
    (errors.BackendError, 503, "store_away"),
    (errors.OnwardError, 400, "bad_request"),
)

_FIELD = re.compile(r" - at `\$\.?([^`\[]*)[^`]*`$")


def refusal_of(error: Exception, age: float | None = None) -> Refused | None:
    """Return how an error of Onward's, or of a query or body, is answered; None for any other.

    ``age``: the seconds since the store last answered.
    """
    if isinstance(error, Refused):
        return error
    if isinstance(error, msgspec.ValidationError):
        return _invalid(str(error))
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError):
        return Refused(400, "bad_request", f"the body is no JSON: {error}", fix="send a JSON object")
    status, word = next(((status, word) for kind, status, word in _STATUS if isinstance(error, kind)), (0, ""))
    if not status:
        return None
    told, headers = without_credentials(str(error)), {}
    message, _, fix = told.partition(": ") if status == 404 else (told, "", "")
    more: dict[str, object] = {"fix": fix} if fix else {}
    if isinstance(error, FilterError):
        more = {"column": error.column, "field": "filter"}
    if status == 503:
        headers["Retry-After"] = "2"
        more = {"age": age, "fix": "the page goes on by itself when the store answers again"}
    return Refused(status, word, message, headers=headers, **more)


def _invalid(told: str) -> Refused:
    """Return the refusal of a query or a body that does not have its form, with the field."""
    found = _FIELD.search(told)
    message = _FIELD.sub("", told)
    if found is None and "unknown field" in told:
        found = re.search(r"`([^`]*)`", told)
    field = found[1] if found is not None else None
    return Refused(400, "bad_request", f"{field}: {message}" if field else message, field=field)
