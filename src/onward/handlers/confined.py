"""A file that `onward.handlers.limits` runs: it sets limits on its own process, then becomes the program.

    python -I -S confined.py RLIMIT_CPU=5:6,RLIMIT_NOFILE=64:64 NAME=NAME executable argv…

A limit must hold before the program's first instruction.  Between fork and exec no Python code may run in a process that has
threads, and a limit that a parent sets on a running child comes too late; so this process starts in between.  It imports no
module of Onward.  The second word names the variables that the program is to have: the interpreter adds its own.
"""

from __future__ import annotations

import os
import resource
import signal
import sys

__all__ = ["main"]

_CANNOT_RUN = 127


def main(limits: str, names: str, executable: str, argv: list[str]) -> None:
    """Become the program; return only if it cannot be run."""
    variables = {name: os.environ[name] for name in names.split("=") if name}
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # the interpreter ignores them, and programs inherit that
        signal.signal(ignored, signal.SIG_DFL)
    for limit in limits.split(","):
        name, _, values = limit.partition("=")
        soft, hard = map(int, values.split(":"))
        _set(getattr(resource, name), soft, hard)
    os.execve(executable, argv, variables)  # noqa: S606  that there is no shell is the point


def _set(kind: int, soft: int, hard: int) -> None:
    """Set a limit, or the lower one that this process has itself."""
    _, most = resource.getrlimit(kind)
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(kind, (soft, hard))


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
    except (OSError, ValueError, MemoryError) as error:
        sys.stderr.write(f"the program cannot be run: {error!r}\n")
        raise SystemExit(_CANNOT_RUN) from None
