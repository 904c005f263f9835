"""The exit codes that scripts may rely on, and which error ends in which."""

from __future__ import annotations

from enum import IntEnum

from onward import errors

__all__ = ["EXIT_CODES", "MEANINGS", "CommandError", "Exit", "code_of"]


class Exit(IntEnum):
    OK = 0
    FAILURE = 1
    USAGE = 2
    CONFIG = 3
    UNREACHABLE = 4
    SCHEMA = 5
    NOTHING = 6
    PENDING = 7
    INTERRUPTED = 130
    PIPE = 141


MEANINGS = {
    Exit.OK: "done",
    Exit.FAILURE: "the command failed, in whole or in part",
    Exit.USAGE: "the command line is wrong",
    Exit.CONFIG: "the configuration, or the store it names, has to be changed first",
    Exit.UNREACHABLE: "the store cannot be reached now, or does not exist",
    Exit.SCHEMA: "the store was migrated by a newer Onward",
    Exit.NOTHING: "nothing matched: no such job, key, schedule, limit or flow, nothing to replay or purge",
    Exit.PENDING: "the tables are not up to date: run `onward migrate`",
    Exit.INTERRUPTED: "interrupted with Ctrl-C",
    Exit.PIPE: "the reader of the output has gone, as in `onward job list | head`",
}


class CommandError(Exception):
    """A command cannot go on.  The message names the fix."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.code = code


# The first line that fits decides, so special errors are above general ones.
EXIT_CODES: tuple[tuple[type[Exception], Exit], ...] = (
    (errors.BackendUnavailable, Exit.UNREACHABLE),
    (errors.SchemaTooNew, Exit.SCHEMA),
    (errors.BackendMisconfigured, Exit.CONFIG),
    (errors.DefinitionError, Exit.CONFIG),
    (errors.SigningKeyMissing, Exit.CONFIG),
    (errors.JobNotFound, Exit.NOTHING),
    (errors.ScheduleNotFound, Exit.NOTHING),
    (errors.LimitNotFound, Exit.NOTHING),
    (errors.FlowNotFound, Exit.NOTHING),
    (errors.ArgumentError, Exit.USAGE),
    (errors.OptionError, Exit.USAGE),
    (errors.InvalidName, Exit.USAGE),
    (errors.InvalidTime, Exit.USAGE),
    (errors.InvalidSchedule, Exit.USAGE),
    (errors.InvalidLimit, Exit.USAGE),
    (errors.FlowError, Exit.USAGE),
    (errors.PayloadTooLarge, Exit.USAGE),
    (errors.OnwardError, Exit.FAILURE),
    (OSError, Exit.FAILURE),
)


def code_of(error: Exception) -> Exit | None:
    """Return the exit code of a known kind of error; None for any other."""
    if isinstance(error, CommandError):
        return error.code
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), None)
