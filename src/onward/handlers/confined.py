"""Run as a file, by `onward.handlers.limits`: takes limits upon itself, then becomes the program.

    python -I -S confined.py RLIMIT_CPU=5:6,RLIMIT_NOFILE=64:64 NAME=NAME executable argv…

A limit must hold before the program's first instruction.  Between fork and exec nothing of Python may run in a process that
has threads, and what a parent sets on a child that runs comes too late; so another process stands in between.  It imports
nothing of ours.  The second word names the variables that the program is to have: the interpreter adds its own.
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
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by the interpreter, and what is ignored stays so
        signal.signal(ignored, signal.SIG_DFL)
    for limit in limits.split(","):
        name, _, values = limit.partition("=")
        soft, hard = map(int, values.split(":"))
        _set(getattr(resource, name), soft, hard)
    os.execve(executable, argv, variables)  # noqa: S606  that there is no shell is the point


def _set(kind: int, soft: int, hard: int) -> None:
    """Set as much as is asked for, or the less that we are allowed ourselves."""
    _, most = resource.getrlimit(kind)
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(kind, (soft, hard))


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
    except (OSError, ValueError, MemoryError) as error:
        sys.stderr.write(f"it cannot be run: {error!r}\n")
        raise SystemExit(_CANNOT_RUN) from None
