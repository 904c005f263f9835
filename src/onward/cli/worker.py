"""``onward worker``: run jobs in processes of their own, under a supervisor."""

from __future__ import annotations

import logging
import sys
from argparse import ArgumentTypeError, Namespace

from onward.base.clock import SystemClock
from onward.base.names import whole
from onward.cli import values, workers
from onward.cli.application import given
from onward.cli.application_name import ApplicationName
from onward.cli.command import Command, argument
from onward.cli.exits import CommandError, Exit
from onward.cli.listening import bound
from onward.cli.log_lines import FORMATS
from onward.security.key_ring import MODES

__all__ = ["COMMAND", "log_level"]


def run(args: Namespace) -> int:
    """Supervise worker processes until a signal stops them."""
    if sys.platform == "win32":
        raise CommandError(
            "`onward worker` needs a POSIX system: run jobs on threads of your program, `with jobs.worker(): ...`",
            Exit.CONFIG,
        )
    # The supervisor imports neither the application nor what only a worker process needs.
    from onward.backends.opening import open_store
    from onward.supervisor.options import ProcessOptions, SupervisorOptions
    from onward.supervisor.supervisor import Supervisor

    name = _application_name(args)
    once = {"concurrency": 1, "max_jobs": 1, "until_empty": True} if args.once else {}
    process = ProcessOptions(
        **{
            "app": name,
            "imports": args.imports or [],
            "settings": given(args) | ({} if args.signing is None else {"signing": args.signing}),
            "queues": args.queues or {},
            "concurrency": args.concurrency,
            "limits": dict(args.limit or []),
            "shutdown_timeout": args.shutdown_timeout,
            "max_jobs": args.max_jobs,
            "recycle_after": args.max_jobs_per_process,
            "until_empty": args.until_empty,
            "log_level": log_level(args),
            "log_format": args.log_format,
            "tell_files": args.reload,
            "preload": args.preload,
            # With --reload, every process has the code of its own start.
            "deployed_at": None if args.reload else SystemClock().micros(),
            **once,
        }
    )
    options = SupervisorOptions(
        program=(sys.executable, "-m", "onward.entry.child"),
        process=process,
        template_program=_template_program(args),
        processes=1 if args.once else args.processes,
        max_rss=args.max_rss,
        max_silence=args.max_silence,
        timeout_grace=args.timeout_grace,
        reload=args.reload,
        listening=None if args.listen is None else bound(*args.listen),
        heartbeat=args.heartbeat,
    )
    return Supervisor(options, open_store=open_store).run()


def _application_name(args: Namespace) -> str:
    name: str | None = args.application or args.app
    if name is None:
        raise CommandError("name the application: `onward worker shop.jobs:jobs`", Exit.USAGE)
    ApplicationName.parse(name)  # a typing error raises before a process is started
    return name


def _template_program(args: Namespace) -> tuple[str, ...] | None:
    """Return the command that starts the process from which the worker processes are forked; None: they are not.

    A single process shares its memory with nobody, and elsewhere than on Linux a fork after an import is not safe.
    """
    shares = args.preload and args.processes > 1 and not args.once
    return (sys.executable, "-m", "onward.entry.worker_template") if shares and sys.platform == "linux" else None


def log_level(args: Namespace) -> int:
    return logging.DEBUG if args.debug else logging.WARNING if args.quiet else logging.INFO


def _queues(text: str) -> dict[str, int]:
    """Read ``mail,default``, in strict order, or ``mail=3,default=1``, by weight."""
    queues: dict[str, int] = {}
    for word in filter(None, text.split(",")):
        name, equals, weight = word.partition("=")
        queues[name] = values.count(weight) if equals else 0
    if not queues:
        raise ArgumentTypeError("no queue is named: write mail,default or mail=3,default=1")
    if len({bool(weight) for weight in queues.values()}) > 1:
        raise ArgumentTypeError(f"{text!r} gives a weight to some queues only: give one to all or to none")
    return queues


def _limit(text: str) -> tuple[str, int]:
    name, equals, number = text.partition("=")
    if not name or not equals:
        raise ArgumentTypeError(f"{text!r} is not QUEUE=NUMBER")
    return name, values.count(number)


_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30}


def _size(text: str) -> int:
    """Read a size in bytes, or with a unit.

    >>> _size("512M"), _size("2G"), _size("1048576")
    (536870912, 2147483648, 1048576)
    """
    number, unit = (text[:-1], text[-1].lower()) if text[-1:].lower() in _UNITS else (text, "")
    size = whole(number)
    if not size:
        raise ArgumentTypeError(f"{text[:40]!r} is not a size: write it as 512M or 2G")
    return size * _UNITS.get(unit, 1)


COMMAND = Command(
    "worker",
    "run jobs in worker processes, until it is told to stop",
    run,
    (
        argument(
            "application",
            "the application, as in shop.jobs:jobs or shop:create()",
            metavar="MODULE:ATTRIBUTE",
            nargs="?",
        ),
        argument(
            "--queues",
            "which queues: mail,default in strict order, or mail=3,default=1 by weight; tenant.* is every queue that begins "
            "so; else those of the jobs",
            metavar="NAMES",
            type=_queues,
        ),
        argument("--processes", "worker processes (1)", metavar="N", type=values.count, default=1),
        argument(
            "--concurrency", "jobs that each process runs at once (10)", metavar="N", type=values.count, default=10
        ),
        argument(
            "--limit",
            "how many of one queue each process runs at once, or of each queue that fits a pattern; repeatable",
            metavar="QUEUE=N",
            type=_limit,
            action="append",
        ),
        argument(
            "--import",
            "a module to import, for its jobs; repeatable",
            metavar="MODULE",
            action="append",
            dest="imports",
        ),
        argument(
            "--signing",
            "what to do about jobs whose signature is missing or wrong: off, warn, require; else what the settings say",
            metavar="MODE",
            choices=MODES,
        ),
        argument("--once", "run one job that is due, if there is one, and exit", action="store_true"),
        argument("--max-jobs", "exit after this many jobs", metavar="N", type=values.count),
        argument("--until-empty", "exit when nothing is due any more", action="store_true"),
        argument(
            "--shutdown-timeout",
            "how long a stop waits for running jobs (25s)",
            metavar="TIME",
            type=values.duration,
            default=25.0,
        ),
        argument(
            "--timeout-grace",
            "how long a job may ignore its time-out before its process is recycled (10s)",
            metavar="TIME",
            type=values.duration,
            default=10.0,
        ),
        argument("--max-jobs-per-process", "recycle a process after this many jobs", metavar="N", type=values.count),
        argument("--max-rss", "recycle a process that occupies more memory, as in 512M", metavar="SIZE", type=_size),
        argument(
            "--max-silence",
            "kill a process whose engine does nothing for this long (1h)",
            metavar="TIME",
            type=values.duration,
            default=3600.0,
        ),
        argument(
            "--no-preload",
            "start each process as a fresh interpreter, not as a fork of one that has imported the application",
            action="store_false",
            dest="preload",
            default=True,
        ),
        argument(
            "--log-format",
            "how the log on stderr is written: text for people (the default), json for machines, an object a line",
            choices=FORMATS,
            default="text",
        ),
        argument(
            "--listen",
            "serve /metrics, /livez and /readyz over HTTP, as in 127.0.0.1:9464; a port alone is this machine only",
            metavar="HOST:PORT",
            type=values.address,
        ),
        argument(
            "--heartbeat", "a file that is touched every 10 s while the worker is well, for probes", metavar="FILE"
        ),
        argument("--reload", "restart the processes when the code changes, for development", action="store_true"),
    ),
    about=(
        "SIGTERM or Ctrl-C drains: no job is claimed, running jobs finish, and the exit code is 0. A second signal kills "
        "running jobs and gives them back; a third exits at once, and the leases expire later. `onward worker list` "
        "runs no job: it lists the workers."
    ),
    narrates=True,
    others=(workers.COMMAND,),
)
