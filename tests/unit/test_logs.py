"""Loggers that cannot hurt whoever logs."""

import logging

import pytest

from onward.logs import QuietLogger, get_logger


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


def test_a_traceback_that_is_text_is_shown_by_every_formatter(logger, caplog):
    logger.log_traceback(logging.ERROR, "%s died", "work", traceback='  File "shop.py", line 1\nOSError: away')

    (record,) = caplog.records
    assert (record.filename, record.getMessage()) == ("test_logs.py", "work died")
    assert logging.Formatter("%(message)s").format(record) == 'work died\n  File "shop.py", line 1\nOSError: away'


def test_a_handler_that_raises_at_a_traceback_hurts_as_little(logger, broken, capsys):
    logger.log_traceback(logging.ERROR, "lost", traceback="OSError: away")

    assert capsys.readouterr().err.count("Traceback") == 1
