"""Every command there is, in the order in which the help lists them, and the options that all of them take."""

from __future__ import annotations

from onward.cli import (
    audit,
    check_deploy,
    completion,
    config,
    dead,
    enqueue,
    flows,
    forget,
    health,
    jobs,
    keys,
    limits,
    maintenance,
    migrate,
    move,
    queues,
    schedules,
    top,
    web,
    why,
    worker,
)
from onward.cli.command import Command, Group, argument
from onward.demo import command as demo

__all__ = ["GLOBALS", "TREE"]

GLOBALS = (
    argument("--url", "the store, such as sqlite:///jobs.db; else ONWARD_URL, or what onward.toml says", metavar="URL"),
    argument(
        "--store", "the database beside a broker, for what the broker cannot keep; else ONWARD_STORE", metavar="URL"
    ),
    argument("--namespace", "the namespace in that store", metavar="NAME"),
    argument(
        "--app",
        "take store and jobs from an application in Python code, as in shop.jobs:jobs or shop:create()",
        metavar="MODULE:ATTRIBUTE",
    ),
    argument("--json", "print data as JSON, one object to a line", action="store_true"),
    argument("--quiet", "print data and errors only", action="store_true"),
    argument("--debug", "log, and show the traceback of an error", action="store_true"),
)

TREE: tuple[Command | Group, ...] = (
    enqueue.COMMAND,
    worker.COMMAND,
    top.COMMAND,
    web.COMMAND,
    jobs.GROUP,
    why.COMMAND,
    dead.GROUP,
    queues.GROUP,
    schedules.GROUP,
    limits.GROUP,
    flows.GROUP,
    audit.COMMAND,
    *maintenance.COMMANDS,
    health.COMMAND,
    forget.COMMAND,
    migrate.COMMAND,
    check_deploy.COMMAND,
    move.COMMAND,
    keys.GROUP,
    *config.COMMANDS,
    demo.COMMAND,
    completion.COMMAND,
)
