"""Running one command: parse, run, and turn the result or the error into an exit code."""

from __future__ import annotations

import logging
import sys
import traceback
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from onward.base.credentials import without_credentials
from onward.cli import output
from onward.cli.exits import Exit, code_of
from onward.cli.log_lines import log_handler
from onward.cli.parser import parse
from onward.cli.text import escaped_lines
from onward.cli.worker import log_level
from onward.config import unknown_variables

__all__ = ["run"]


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    output.survive_any_text()
    try:
        args = parse(words)
        for problem in unknown_variables():
            output.say(args, [("warning:", "bold yellow"), (f" {problem}", "")])
        with _log_shown(args):
            code: int = args.run(args)
        sys.stdout.flush()
    except SystemExit as ended:  # --help
        return ended.code if isinstance(ended.code, int) else Exit.OK
    except BrokenPipeError:
        output.quietly_closed()
        return Exit.PIPE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except Exception as error:  # noqa: BLE001  any error gets a line and an exit code
        if "--debug" in words:
            sys.stderr.write(escaped_lines(without_credentials(traceback.format_exc())))
        return _failed(error)
    return code


def _failed(error: Exception) -> int:
    code = code_of(error)
    if code is None:
        output.fail(f"unexpected {type(error).__name__}: {error}; --debug shows the traceback")
        return Exit.FAILURE
    output.fail(str(error))
    return code


@contextmanager
def _log_shown(args: Namespace) -> Iterator[None]:
    """Write the library's log to stderr: errors only, unless the command is a log or --debug is given."""
    narrates = args.command is not None and args.command.narrates
    handler = log_handler(args.log_format) if narrates else log_handler("text", "%(name)s: %(message)s")
    handler.setLevel(log_level(args) if narrates else logging.DEBUG if args.debug else logging.ERROR)
    logger = logging.getLogger("onward")
    before = logger.level
    logger.addHandler(handler)
    if narrates:
        logger.setLevel(handler.level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
