"""Loggers that never raise."""

import logging
from pathlib import Path

import pytest

import onward
from onward.base import logs
from onward.base.logs import QuietLogger, get_logger


@pytest.fixture
def logger():
    return get_logger("onward.testing.logs")


@pytest.fixture
def broken(monkeypatch):
    class Broken(logging.Handler):
        def emit(self, record):
            raise RuntimeError("no room for logs")

    monkeypatch.setattr(QuietLogger, "complained", False)
    handler = Broken()
    logging.getLogger("onward.testing.logs").addHandler(handler)
    yield
    logging.getLogger("onward.testing.logs").removeHandler(handler)


def test_it_logs_as_its_logger_does(logger, caplog):
    logger.warning("%s and %d", "words", 3, extra={"job_id": "a"})

    (record,) = caplog.records
    assert (record.getMessage(), record.name, record.job_id) == ("words and 3", "onward.testing.logs", "a")


def test_a_line_names_the_place_it_comes_from(logger, caplog):
    logger.warning("here")

    assert caplog.records[0].filename == "test_logs.py"
    assert caplog.records[0].funcName == "test_a_line_names_the_place_it_comes_from"


def test_what_is_below_the_level_is_not_logged(logger, caplog):
    with caplog.at_level(logging.ERROR, logger="onward.testing.logs"):
        logger.warning("nobody wants it")

    assert caplog.records == []


def test_a_handler_that_raises_is_complained_of_once(logger, broken, capsys):
    for _ in range(3):
        logger.error("lost")

    assert capsys.readouterr().err.count("Traceback") == 1


def test_an_exception_comes_with_its_traceback(logger, caplog):
    try:
        int("bad")
    except ValueError:
        logger.exception("it failed")

    assert "ValueError: invalid literal" in caplog.text


@pytest.mark.promise("CVE-2023-40712")
@pytest.mark.parametrize("quoted", ["a\nCRITICAL forged", "a\r\x1b[2Jb", "a\u2028b\x00", ValueError("a\nb\x9b")])
def test_what_a_line_quotes_stays_on_it_with_any_formatter(logger, caplog, quoted):
    logger.error("job %s failed: %s", "j1", quoted, extra={"queue": str(quoted)})

    (record,) = caplog.records
    assert record.getMessage().isprintable()
    assert record.queue.isprintable()
    assert "\\" in record.getMessage()


def test_numbers_and_templates_are_left_to_the_formatter(logger, caplog):
    logger.error("%d of %.1f, %r", 3, 1.25, ["a"])

    (record,) = caplog.records
    assert (record.msg, record.args, record.getMessage()) == ("%d of %.1f, %r", (3, 1.25, ["a"]), "3 of 1.2, ['a']")


def test_no_line_of_a_traceback_looks_like_an_entry_of_its_own(logger, caplog):
    logger.log_traceback(logging.ERROR, "it failed", traceback="  File x\nValueError: a\nCRITICAL forged\x1b")

    told = caplog.records[0].exc_text
    assert all(line.startswith("    ") for line in told.split("\n"))
    assert "\x1b" not in told


def test_no_line_has_the_password_of_a_url(logger, caplog):
    logger.error("cannot reach %s", "postgresql://ann:hun@ter2@db/shop")

    assert caplog.records[0].getMessage() == "cannot reach postgresql://ann:***@db/shop"


@pytest.mark.parametrize("text", ["postgresql://ann:hunter2@db/shop", "a\nb", "x" * 10_000])
def test_a_text_that_was_told_before_is_told_in_the_same_way(logger, caplog, text):
    for _ in range(2):
        logger.error("%s", text, extra={"queue": text})

    first, second = caplog.records
    assert (first.getMessage(), first.queue) == (second.getMessage(), second.queue)
    assert "hunter2" not in first.getMessage() + first.queue
    assert text not in logs._known


def test_few_texts_are_remembered(logger, monkeypatch):
    monkeypatch.setattr(logs, "_MOST_KNOWN", 3)
    for number in range(9):
        logger.error("job %s failed", f"a job {number}")

    assert len(logs._known) <= 3


@pytest.mark.parametrize("way", ["exception", "exc_info=True", "exc_info=error"])
def test_no_traceback_of_an_error_has_the_password_of_a_url(logger, caplog, way):
    def fail():
        raise OSError("cannot reach postgresql://ann:hunter2@db/shop\nCRITICAL forged\x1b")

    try:
        fail()
    except OSError as error:
        if way == "exception":
            logger.exception("it failed")
        else:
            logger.critical("it failed", exc_info=True if way == "exc_info=True" else error)

    (record,) = caplog.records
    assert record.filename == "test_logs.py"
    told = logging.Formatter("%(message)s").format(record)
    assert "in test_no_traceback_of_an_error" in told
    assert "OSError: cannot reach postgresql://ann:***@db/shop" in told
    assert not any(line.startswith("CRITICAL") for line in told.splitlines())
    assert "\x1b" not in told


def test_every_line_of_the_library_goes_this_way():
    """A logger of the standard library's own would let anything through."""
    package = Path(onward.__file__).parent
    allowed = {
        "base/logs.py",
        "cli/running.py",
        "backends/servicebus/driver.py",
        "compat/celery/utils/log.py",
        "integrations/django/app.py",
        "integrations/logs.py",
    }  # this way itself; levels and handlers, and nothing said
    found = {
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        if "logging.getLogger(" in file.read_text() and "testing" not in file.parts
    }

    assert found == allowed


def test_a_traceback_that_is_text_is_shown_by_every_formatter(logger, caplog):
    logger.log_traceback(logging.ERROR, "%s died", "work", traceback='  File "shop.py", line 1\nOSError: away')

    (record,) = caplog.records
    assert (record.filename, record.getMessage()) == ("test_logs.py", "work died")
    shown = 'work died\n      File "shop.py", line 1\n    OSError: away'
    assert logging.Formatter("%(message)s").format(record) == shown


def test_a_handler_that_raises_at_a_traceback_hurts_as_little(logger, broken, capsys):
    logger.log_traceback(logging.ERROR, "lost", traceback="OSError: away")

    assert capsys.readouterr().err.count("Traceback") == 1
