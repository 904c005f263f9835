"""Answers as bytes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

import msgspec

from onward.base.logs import get_logger
from onward.web.failures import Refused, refusal_of
from onward.web.request import Lines, Response

__all__ = ["NDJSON", "as_error", "as_json", "as_lines"]

logger = get_logger("onward.web")

NDJSON = "application/x-ndjson"


def as_json(answer: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    sent = {"Content-Type": "application/json", "Cache-Control": "no-store", **(headers or {})}
    return Response(status=status, headers=sent, body=msgspec.json.encode(answer))


def as_error(refused: Refused) -> Response:
    return as_json(refused.answer, status=refused.status, headers=refused.headers)


def as_lines(answers: Iterator[Any], last: Callable[[str], Any]) -> Response:
    """Send each answer as a line when it is there.  ``last`` makes the line of an error, after which nothing comes.

    The first one is waited for, so that what is refused at once has a status of its own.
    """
    first = next(answers, None)

    def lines() -> Generator[bytes, None, None]:
        try:
            if first is not None:
                yield _line(first)
            for answer in answers:
                yield _line(answer)
        except Exception as error:  # the status is sent: the line says it
            refused = refusal_of(error)
            if refused is None:
                logger.exception("a stream of the dashboard failed")
            yield _line(last("an error of the dashboard: see its log" if refused is None else refused.answer.message))
        finally:
            close = getattr(answers, "close", None)
            if close is not None:
                close()

    headers = {"Content-Type": NDJSON, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Response(headers=headers, body=Lines(lines()))


def _line(answer: Any) -> bytes:
    return msgspec.json.encode(answer) + b"\n"
