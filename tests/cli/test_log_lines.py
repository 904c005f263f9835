"""The log of a command: what a job said cannot look like a line of its own, nor do anything to a terminal."""

import io
import json
import logging
import os
import re
import subprocess
import sys
from datetime import datetime

import pytest

from onward.cli.log_lines import log_handler

HOSTILE = "no\n2026-01-01 CRITICAL onward: forged\x1b[2J\u202e\ud800\r"


@pytest.fixture
def logged():
    """What a handler writes of a message: ``logged("json", "%s failed", "work", extra={...})``."""

    def logged(log_format, *args, **options):
        handler = log_handler(log_format)
        handler.stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", newline="")
        logger = logging.Logger("onward.job")  # noqa: LOG001  one of its own
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


LINE = re.compile(r"(?P<at>\S+) (?P<level>[A-Z]+) +\[(?P<pid>\d+)\] (?P<logger>[\w.]+): (?P<message>.*)")

SHOP = """
from onward import Fixed, NoDelay, Onward

jobs = Onward("sqlite:///shop.db")


@jobs.job(max_retries=1, retry=NoDelay())
def charge(card: str):
    raise_it(card)


@jobs.job(max_retries=1, retry=NoDelay())
async def acharge(card: str):
    raise_it(card)


@jobs.job(max_retries=1, retry=Fixed(90))
def charge_later(card: str):
    raise_it(card)


@jobs.job(isolation="process")
def charge_alone(card: str):
    raise_it(card)


def raise_it(card):
    raise ValueError(f"the bank \\x1b refused {card}")
"""


@pytest.fixture
def worked(tmp_path):
    """The log of a worker that runs one job until nothing is left: ``worked("charge", "--log-format", "json")``."""

    def worked(job, *arguments):
        (tmp_path / "shop.py").write_text(SHOP)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        run = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True, "timeout": 60}
        onward = [sys.executable, "-m", "onward"]
        subprocess.run([*onward, "enqueue", job, "card=visa", "--app", "shop:jobs"], check=True, **run)
        return subprocess.run([*onward, "worker", "shop:jobs", "--until-empty", *arguments], check=True, **run).stderr

    return worked


def test_a_line_of_text_has_an_instant_with_its_offset_and_the_process(logged):
    line = LINE.fullmatch(logged("text", "it is said").rstrip())

    at = datetime.fromisoformat(line["at"])
    assert at.utcoffset() is not None
    assert abs(datetime.now(at.tzinfo) - at).total_seconds() < 60
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", line["at"])
    assert (line["level"], int(line["pid"]), line["logger"]) == ("ERROR", os.getpid(), "onward.job")


def test_json_has_an_instant_with_its_offset(logged):
    at = datetime.fromisoformat(json.loads(logged("json", "it is said"))["at"])

    assert at.utcoffset() is not None


@pytest.mark.parametrize("job", ["charge", "acharge", "charge_alone"])
def test_a_dead_job_has_its_traceback_in_the_log_without_frames_of_the_engine(worked, job):
    log = worked(job)

    dead = log[log.index("job.discarded") :].splitlines()
    assert re.match(
        rf"job\.discarded {job} \S+ attempt \d in \d+ m?s: gave up after \d attempts?: .*; ValueError: ", dead[0]
    )
    assert re.match(r' {6}File ".*/shop\.py", line \d+, in a?charge', dead[1])
    assert "raise_it" in dead[3]
    assert dead[5] == "    ValueError: the bank \\x1b refused visa"
    assert "onward/worker" not in log
    assert "_attempt.py" not in log


def test_a_dead_job_has_its_traceback_in_json_too(worked):
    lines = [json.loads(line) for line in worked("charge", "--log-format", "json").splitlines()]

    (failed,) = [line for line in lines if line.get("event") == "job.failed"]
    (dead,) = [line for line in lines if line.get("event") == "job.discarded"]
    assert "exception" not in failed
    assert re.match(r' {6}File ".*/shop\.py", line \d+, in charge\n', dead["exception"])
    assert dead["exception"].endswith("ValueError: the bank \\x1b refused visa")
    assert (dead["attempt"], dead["job"], dead["queue"]) == (2, "charge", "default")
    assert dead["duration_ms"] >= 0


def test_a_retry_says_how_long_it_took_and_when_it_comes(worked):
    log = worked("charge_later")

    assert re.search(
        r"job\.failed charge_later \S+ attempt 1 in \d+ ms, retry in 1 min 30 s: ValueError: the bank", log
    )
