"""Commands that people are told to type.  What a store says of names is quoted, so that a shell reads it as a name."""

from __future__ import annotations

import re
import shlex

__all__ = ["APPLICATION", "begun_by", "canary", "command", "end_process", "worker_for"]

_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_COMMAND = re.compile(r"(?<![\w.:/'-])onward(?= [a-z])")  # and not the end of a job's name
APPLICATION = "MODULE:ATTRIBUTE"  # the application that a worker runs, which a store does not know


def command(*words: str) -> str:
    """Return a command of ours.

    >>> command("audit", "--who", "Ada Lovelace")
    "onward audit --who 'Ada Lovelace'"
    """
    return shlex.join(("onward", *words))


def worker_for(queue: str) -> str:
    """Return the command that starts a worker for a queue."""
    return command("worker", APPLICATION, "--queues", queue)


def begun_by(program: str, text: str) -> str:
    """Return a text whose commands begin with a program that knows its application.

    >>> begun_by("manage.py onward", "onward worker MODULE:ATTRIBUTE --queues mail; `onward health`")
    'manage.py onward worker --queues mail; `manage.py onward health`'
    >>> begun_by("manage.py onward", "onward dead canary --job shop.onward --group 1f")
    'manage.py onward dead canary --job shop.onward --group 1f'
    """
    return _COMMAND.sub(lambda _: program, text.replace(f" {APPLICATION}", ""))


def canary(job: str, fingerprint: str) -> str:
    """Return the command that replays a group of dead jobs, one before the others."""
    return command("dead", "canary", "--job", job, "--group", fingerprint)


def end_process(host: str, pid: int) -> str:
    """Return the command that lets a process end in order.  A store may say anything of both, and -1 would be all processes.

    >>> end_process("web-1", 4711)
    'ssh web-1 kill -TERM 4711'
    >>> end_process("-oProxyCommand=reboot", -1)
    'restart the worker'
    """
    if pid < 2 or (host and not _HOST.fullmatch(host)):
        return "restart the worker"
    return f"{f'ssh {host} ' if host else ''}kill -TERM {pid}"
