"""The log of a command: what a job said cannot look like a line of its own, nor do anything to a terminal."""

import io
import json
import logging
import sys

import pytest

from onward.cli.log_lines import log_handler

HOSTILE = "no\n2026-01-01 CRITICAL onward: forged\x1b[2J\u202e\ud800\r"


@pytest.fixture
def logged():
    """What a handler writes of a message: ``logged("json", "%s failed", "work", extra={...})``."""

    def logged(log_format, *args, **options):
        handler = log_handler(log_format)
        handler.stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", newline="")
        logger = logging.Logger("onward.job")  # noqa: LOG001  one that nobody else has
        logger.addHandler(handler)
        logger.error(*args, **options)
        handler.stream.flush()
        return handler.stream.buffer.getvalue().decode()

    return logged


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_message_stays_one_visible_line(logged, log_format):
    line = logged(log_format, "job.failed: %s", HOSTILE)

    assert line.count("\n") == 1
    assert line[:-1].isprintable()
    assert "forged" in line


def test_json_says_all_that_there_is_to_a_line(logged):
    line = json.loads(logged("json", "%s", HOSTILE, extra={"event": "job.failed", "job_id": "7", "attempt": 2}))

    assert line.pop("at") < "9999"
    assert line.pop("pid") > 0
    assert line == {
        "level": "error",
        "logger": "onward.job",
        "message": HOSTILE.replace("\ud800", "\\ud800"),
        "event": "job.failed",
        "job_id": "7",
        "attempt": 2,
    }


def test_a_traceback_is_part_of_its_line_in_json_and_has_lines_in_text(logged):
    try:
        int(HOSTILE)
    except ValueError:
        error = sys.exc_info()

    told = json.loads(logged("json", "it failed", exc_info=error))
    text = logged("text", "it failed", exc_info=error)

    assert told["exception"].startswith("Traceback (most recent call last):\n")
    assert "\x1b" not in text
    assert len(text.splitlines()) > 3
