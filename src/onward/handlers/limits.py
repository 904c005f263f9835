"""Limits on the resources of a program, and which of them a failed program has reached."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from onward.base.names import suggestion
from onward.errors import OptionError

__all__ = ["Limits", "never_dump"]

_CONFINED = Path(__file__).with_name("confined.py")
_LARGEST = 2**62


class _Kind(NamedTuple):
    resource: str
    signal: int | None = None  # by which it ends a program that exceeds it
    words: tuple[str, ...] = ()  # in the errors of programs that have reached it
    grace: int = 0  # until the last limit, which no program can ignore


def _signal(name: str) -> int | None:
    """Return the number of a signal; None where the system does not have it."""
    return getattr(signal, name, None)


_KINDS = {
    "cpu_seconds": _Kind("RLIMIT_CPU", _signal("SIGXCPU"), grace=1),
    "address_space": _Kind(
        "RLIMIT_AS", words=("Cannot allocate memory", "MemoryError", "memory exhausted", "bad_alloc")
    ),
    "open_files": _Kind("RLIMIT_NOFILE", words=("Too many open files",)),
    "file_size": _Kind("RLIMIT_FSIZE", _signal("SIGXFSZ"), words=("File too large",)),
}


class Limits:
    """``{"cpu_seconds": 60, "address_space": 2**30, "open_files": 64, "file_size": 10**8}``, or some of them."""

    def __init__(self, limits: Mapping[str, int], where: str) -> None:
        if not isinstance(limits, Mapping):
            raise OptionError(f"{where}: limits are a mapping such as {{'cpu_seconds': 60}}, not {limits!r:.60}")
        for name, value in limits.items():
            if name not in _KINDS:
                raise OptionError(f"{where}: there is no limit {name!r:.60}{suggestion(str(name), _KINDS)}")
            if type(value) is not int or not 1 <= value <= _LARGEST:
                raise OptionError(f"{where}: the limit {name} is a whole number from 1 on, not {value!r:.60}")
        self._limits = dict(limits)

    def __bool__(self) -> bool:
        return bool(self._limits)

    def around(self, executable: str, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
        """Return the command that runs the program with these limits; no core is dumped either."""
        said = ["RLIMIT_CORE=0:0"]
        said += [f"{_KINDS[name].resource}={most}:{most + _KINDS[name].grace}" for name, most in self._limits.items()]
        return [sys.executable, "-I", "-S", str(_CONFINED), ",".join(said), "=".join(env), executable, *argv]

    def explanation(self, code: int, words: str) -> str:
        """Return which limits a program that ended like this has reached, as the end of an error text."""
        met = [self._told(name) for name in self._limits if _shows(_KINDS[name], code, words)]
        if met:
            return f", at its limit {' and '.join(met)}"
        return f", with the limits {', '.join(map(self._told, self._limits))}" if self._limits else ""

    def _told(self, name: str) -> str:
        return f"{name}={self._limits[name]}"


def _shows(kind: _Kind, code: int, words: str) -> bool:
    return (kind.signal is not None and code == -kind.signal) or any(word in words for word in kind.words)


def never_dump(pid: int) -> None:
    """Let a program leave no core file, which would hold the secrets in its memory.  Linux only."""
    try:
        import resource  # Windows has none
    except ImportError:
        return
    prlimit: Any = getattr(resource, "prlimit", None)
    if prlimit is not None:
        with contextlib.suppress(OSError):  # it has ended; or it changed its user, and then leaves none by itself
            prlimit(pid, resource.RLIMIT_CORE, (0, 0))
