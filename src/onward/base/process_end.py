"""The end of a process: whether it has ended, killing it with its group, and its exit code in words."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

__all__ = ["describe_end", "end_orphan", "has_ended", "kill_group"]


def has_ended(pid: int) -> bool:
    """Return whether a child process has ended, without waiting for it: until then no other process gets its number."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # a handler has waited for any child
        return True


def kill_group(pid: int) -> None:
    """Kill a child process that was not waited for yet, and the processes of its group."""
    if pid <= 1:
        raise ValueError(f"{pid} is no process of ours: it stands for many")
    for kill in (os.kill, os.killpg):  # it may have left its group
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def describe_end(code: int, *, out_of_memory: bool = False) -> str:
    """Return in words how a process ended, from its exit code as `subprocess` has it.

    >>> describe_end(-9), describe_end(3), describe_end(-9, out_of_memory=True)
    ('killed by SIGKILL', 'exited with code 3', 'killed by SIGKILL: the system was out of memory')
    """
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if out_of_memory and -code == signal.SIGKILL:
        return f"killed by {name}: the system was out of memory"
    return f"killed by {name}"


def end_orphan(pid: int) -> None:
    """Kill a process whose parent has died, with its group, and wait until it is gone.

    Where orphans become children of this process (`onward.supervisor.subreaper`), one that is not a child had ended before,
    and its number may belong to another process by now: it is left alone.
    """
    with suppress(ChildProcessError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        kill_group(pid)
        os.waitpid(pid, 0)
