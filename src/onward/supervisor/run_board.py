"""The run board: what a worker process has begun, in memory that its supervisor can read after the process has died.

    head    the pump's beats, how many jobs it has settled, its turns and how long they took, the events that it dropped; the
            pid of its template; the names of its session and of the successor that may have taken over
    cells   one for each lease whose handler was called and whose settlement has not been answered
    table   what the process has counted (`onward.telemetry.counters`)

The worker process writes a cell before it calls the handler.  So a lease on the board of a dead process may have run, and a
lease that is not on it has not; a process killed in the middle of writing a cell had not called the handler yet.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from onward.telemetry.counters import SIZE, CounterTable

__all__ = ["BegunRun", "BoardTotals", "RunBoard"]

_BEATS, _SETTLED, _TURNS, _TURN_MICROS, _EVENTS_DROPPED, _TEMPLATE = range(6)  # words of the head, of 8 bytes each
_HEAD_SIZE = 64
_NAME = struct.Struct("<B63s")
_NAMES = (64, 128)  # of the session, of its successor
_FIRST_CELL = 256
_CELL = struct.Struct("<BBHIqd40s")  # in use, length of id, whether the pid is a program's, pid, token, deadline, id
_CELLS = 8192
_CELLS_END = _FIRST_CELL + _CELLS * _CELL.size
_TABLE_AT = -(-_CELLS_END // mmap.PAGESIZE) * mmap.PAGESIZE
_SIZE = _TABLE_AT + SIZE
_DEADLINE = struct.Struct("<d")
_DEADLINE_AT = 16  # in a cell
_PROGRAM = struct.Struct("<HI")
_PROGRAM_AT = 2
_LONGEST_ID = 40
_NEVER = float("inf")


class BegunRun(NamedTuple):
    """A lease whose handler was called."""

    id: str
    token: int
    deadline: float  # on the boot-time clock
    pid: int  # of the process that runs only this job; 0: it runs in the worker's
    program: int = 0  # the pid of the program that the handler waits for; 0: none


class BoardTotals(NamedTuple):
    """What the supervisor adds up over processes, beside the counters."""

    turns: int = 0
    turn_micros: int = 0
    events_dropped: int = 0

    def added(self, other: BoardTotals) -> BoardTotals:
        return BoardTotals(*(one + more for one, more in zip(self, other, strict=True)))


class RunBoard:
    """Made by the supervisor, written by one worker process, read by the supervisor."""

    capacity = _CELLS

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._memory = mmap.mmap(fd, _SIZE)
        self._head = memoryview(self._memory)[:_HEAD_SIZE].cast("Q")
        self.counters = CounterTable(memoryview(self._memory)[_TABLE_AT:])
        self._free = deque(range(_FIRST_CELL, _CELLS_END, _CELL.size))
        self._cells: dict[tuple[str, int], int] = {}

    @classmethod
    def create(cls) -> RunBoard:
        fd = _anonymous_file()
        os.ftruncate(fd, _SIZE)
        return cls(fd)

    def close(self) -> None:
        self._head.release()
        self.counters.release()
        self._memory.close()
        os.close(self.fd)

    # The worker process writes

    def beat(self) -> None:
        """Record that the pump is alive."""
        self._head[_BEATS] += 1

    def count(self, settled: int) -> None:
        """Record how many more jobs were settled, for a fleet that runs a limited number."""
        self._head[_SETTLED] += settled

    def turned(self, seconds: float, events_dropped: int) -> None:
        """Record that the store has answered a turn, how long it took, and how many events were dropped until now."""
        self._head[_EVENTS_DROPPED] = events_dropped
        self._head[_TURNS] += 1
        self._head[_TURN_MICROS] += round(seconds * 1_000_000)

    def template(self, pid: int) -> None:
        """Record the process from which isolated processes are forked; 0: there is none any more."""
        self._head[_TEMPLATE] = pid

    def name(self, owner: str, successor: str = "") -> None:
        """Record the names of the session before the store gets them: the supervisor knows every name that the store has."""
        for place, name in zip(_NAMES, (owner, successor), strict=True):
            encoded = name.encode()
            _NAME.pack_into(self._memory, place, len(encoded), encoded)

    def begin(self, key: tuple[str, int], deadline: float = _NEVER, pid: int = 0) -> None:
        """Record that a handler is about to be called."""
        job_id, token = key
        encoded = job_id.encode()
        cell = self._cells.get(key) or self._free.popleft()
        self._cells[key] = cell
        _CELL.pack_into(self._memory, cell, 1, min(len(encoded), _LONGEST_ID), 0, pid, token, deadline, encoded)

    def program(self, key: tuple[str, int], pid: int) -> None:
        """Record that a handler waits for a program; 0: for none any more."""
        cell = self._cells.get(key)
        if cell is not None:
            _PROGRAM.pack_into(self._memory, cell + _PROGRAM_AT, pid != 0, pid)

    def left(self, key: tuple[str, int]) -> None:
        """Record that a handler has returned: however long the answer to its settlement takes, it is not overdue."""
        cell = self._cells.get(key)
        if cell is not None:
            _DEADLINE.pack_into(self._memory, cell + _DEADLINE_AT, _NEVER)

    def end(self, keys: Iterable[tuple[str, int]]) -> None:
        """Remove runs whose settlements were answered."""
        for key in keys:
            cell = self._cells.pop(key, None)
            if cell is not None:
                self._memory[cell] = 0
                self._free.append(cell)

    # The supervisor reads

    def beats(self) -> int:
        return self._head[_BEATS]

    def template_pid(self) -> int:
        """Return the pid of the template; 0: there is none."""
        return self._head[_TEMPLATE]

    def settled(self) -> int:
        return self._head[_SETTLED]

    def totals(self) -> BoardTotals:
        return BoardTotals(self._head[_TURNS], self._head[_TURN_MICROS], self._head[_EVENTS_DROPPED])

    def owners(self) -> list[str]:
        """Return the names that its session may have: none if it was never opened."""
        names = [_NAME.unpack_from(self._memory, place) for place in _NAMES]
        return [encoded[:length].decode() for length, encoded in names if length]

    def begun(self) -> list[BegunRun]:
        """Return the runs that have begun and whose settlements were not answered."""
        used = self._memory[_FIRST_CELL : _CELLS_END : _CELL.size]
        cells = [_FIRST_CELL + number * _CELL.size for number, byte in enumerate(used) if byte] if any(used) else []
        return [
            BegunRun(
                encoded[:length].decode(errors="replace"),
                token,
                deadline,
                0 if runs_program else pid,
                pid if runs_program else 0,
            )
            for _, length, runs_program, pid, token, deadline, encoded in (
                _CELL.unpack_from(self._memory, at) for at in cells
            )
        ]


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("onward-board")
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
