"""One worker process from its supervisor's side: a pid, a channel for messages, a run board to read."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from onward.backend import Held
from onward.base.clock import boottime
from onward.base.ipc import IpcChannel, IpcMessage
from onward.base.process_end import describe_end, end_orphan, kill_group
from onward.supervisor.messages import BEGIN, DECODE_BELOW, Hello, Stop
from onward.supervisor.options import ProcessOptions
from onward.supervisor.run_board import RunBoard

__all__ = ["AwaitedFork", "Ends", "WorkerProcess", "fresh_interpreter", "next_exited", "oom_kills"]


class StartedProcess(Protocol):
    """A process that was started, however: its number, and its exit code."""

    @property
    def pid(self) -> int: ...

    def wait(self) -> int:
        """Wait for its end, and return its exit code as `subprocess` has it."""


class AwaitedFork:
    """A process that the template was asked for.  It waits on its channel until `begin`, or exits when that is closed."""

    def __init__(self, channel: socket.socket) -> None:
        self.pid = 0  # until the template tells it
        self._channel = channel

    def begin(self, pid: int) -> bool:
        """Let it run, now that its pid is known; False if it is no child of this process: it has ended, or will."""
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        self.pid = pid
        with suppress(OSError):  # it has ended, and will be collected
            self._channel.send(BEGIN)
        return True

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def fresh_interpreter(program: Sequence[str], options: ProcessOptions) -> Callable[[Ends], StartedProcess]:
    """Return what starts a process that imports the application by itself.  It may raise `OSError`."""

    def start(ends: Ends) -> StartedProcess:
        # In a process group of its own: Ctrl-C on a terminal reaches the supervisor, which tells its processes.
        return subprocess.Popen(  # noqa: S603  our own interpreter
            [*program, *map(str, ends.theirs), msgspec.json.encode(options).decode()],
            stdin=subprocess.DEVNULL,
            pass_fds=ends.theirs,
            process_group=0,
        )

    return start


class Ends(NamedTuple):
    """What a process is started with: our end of its channel, and the files that it gets, its own end and its run board."""

    ours: socket.socket
    theirs: tuple[int, int]


class WorkerProcess:
    """A process that runs jobs.  It gets no connection and no lock from the supervisor."""

    def __init__(self, number: int, start: Callable[[Ends], StartedProcess]) -> None:
        """Start the process.  May raise what ``start`` raises."""
        self.number = number
        self.hello: Hello | None = None
        self.draining = False
        self.killed: str | None = None  # the reason, if the supervisor killed it
        self.recycled_for: str | None = None  # a word of `probes.CAUSES`
        self.crashed = True  # whether its end is a crash of the jobs that it had begun
        self.overdue: set[Held] = set()
        self._beats = 0
        self._beats_since = time.monotonic()
        with ExitStack() as if_it_fails:  # each failed try must close its files: the system may be short of them
            self.board = RunBoard.create()
            if_it_fails.callback(self.board.close)
            ours, theirs = socket.socketpair()
            self.channel = IpcChannel(ours, DECODE_BELOW)
            if_it_fails.callback(self.channel.close)
            with theirs:
                self.handle = start(Ends(ours, (theirs.fileno(), self.board.fd)))
            if_it_fails.pop_all()

    @property
    def pid(self) -> int:
        """Its pid; 0 while the template that is to fork it has not told."""
        return self.handle.pid

    @property
    def was_forked(self) -> bool:
        return isinstance(self.handle, AwaitedFork)

    def __repr__(self) -> str:
        return f"worker process {self.number} (pid {self.pid})"

    def tell(self, message: IpcMessage) -> None:
        self.channel.post(message)

    def stop(self) -> None:
        """Ask the process to drain and exit."""
        self.draining = True
        self.tell(Stop())

    def kill(self, because: str, *, crash: bool = False) -> None:
        """Kill the process.  ``crash``: whether that is a crash of the jobs that it had begun."""
        if self.killed is None:
            self.killed, self.crashed = because, crash
            kill_group(self.pid)

    def collect_exited(self) -> int:
        """Wait for the exited process, and end all that its jobs have started.  Returns the exit code."""
        begun = self.board.begun()
        if begun:  # its handlers may have started programs
            kill_group(self.pid)
        code = self.handle.wait()
        if template := self.board.template_pid():
            end_orphan(template)  # first: then what it has forked becomes a child of this process
        for pid in (pid for each in begun for pid in (each.pid, each.program) if pid):
            end_orphan(pid)
        return code

    def cause_of_death(self, code: int, *, out_of_memory: bool) -> str:
        return self.killed or describe_end(code, out_of_memory=out_of_memory)

    def why_replaced(self, code: int, *, out_of_memory: bool) -> str | None:
        """Return why another process takes its place, a word of `probes.CAUSES`; None: it has done all there was to do."""
        if self.recycled_for is not None or (code == 0 and self.hello is not None):
            return self.recycled_for
        if code == -signal.SIGKILL and out_of_memory:
            return "out_of_memory"
        return "failed_start" if self.hello is None else "crash"

    def forget(self) -> None:
        self.channel.close()
        self.board.close()

    def look_for_overdue(self, grace: float) -> set[Held]:
        """Return the jobs that run past their time-out and a grace; the worker itself kills those in their own processes."""
        limit = boottime() - grace
        running = [begun for begun in self.board.begun() if not begun.pid]
        self.overdue = {(begun.id, begun.token) for begun in running if begun.deadline < limit}
        return self.overdue

    def runs_only(self, these: AbstractSet[Held]) -> bool:
        return all((begun.id, begun.token) in these for begun in self.board.begun())

    def silent_for(self) -> float:
        """Return for how many seconds its pump has not moved."""
        beats, now = self.board.beats(), time.monotonic()
        if beats != self._beats or not beats:
            self._beats, self._beats_since = beats, now
        return now - self._beats_since

    def rss(self) -> int:
        """Return the bytes of memory that it occupies; 0 where the system does not tell."""
        with suppress(OSError, ValueError, IndexError):
            pages = int(Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE")
        return 0


def next_exited() -> int | None:
    """Return the pid of a child process that has exited and was not waited for."""
    try:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if ended is None else ended.si_pid


_MEMORY_EVENTS = (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control"))


def oom_kills(files: Sequence[Path] = _MEMORY_EVENTS) -> int:
    """Return how many processes of this control group the kernel has killed because memory ran out."""
    for file in files:
        with suppress(OSError, ValueError):
            words = dict(line.split() for line in file.read_text("ascii").splitlines())
            return int(words.get("oom_kill", 0))
    return 0
