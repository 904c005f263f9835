"""The options of a supervisor, and those that it passes to each worker process."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from typing import Literal

import msgspec

__all__ = ["ENGINE_FAILED", "ProcessOptions", "SupervisorOptions"]

ENGINE_FAILED = 70  # the exit code of a process whose own threads have failed


class ProcessOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one worker process, which are on its command line."""

    app: str  # module:attribute
    imports: list[str] = []
    settings: dict[str, str] = {}  # from `onward worker`'s command line: they override the application's own
    queues: dict[str, int] = {}  # with their weights, 0: strict order; empty: those of the registered jobs
    concurrency: int = 10
    limits: dict[str, int] = {}
    shutdown_timeout: float = 25.0
    max_jobs: int | None = None  # stop after so many
    recycle_after: int | None = None  # ask for a replacement after so many
    until_empty: bool = False
    log_level: int = logging.INFO
    log_format: Literal["text", "json"] = "text"
    tell_files: bool = False
    preload: bool = True  # fork processes from one that has imported the application
    ticks: bool = True  # books what schedules have due: one process of each supervisor does
    deployed_at: int | None = None  # when its supervisor started


class SupervisorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How many processes, and when one is replaced."""

    program: Sequence[str]  # the command that starts a worker process
    process: ProcessOptions
    template_program: Sequence[str] | None = None  # the command that starts the one from which they are forked
    processes: int = 1
    max_rss: int | None = None  # bytes
    max_silence: float = 3600.0
    timeout_grace: float = 10.0  # seconds that a handler may go on after its time-out before its process is recycled
    reload: bool = False
    listening: socket.socket | None = None  # for probes and metrics
    heartbeat: str | None = None  # a file that is touched while the worker is well
