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
from onward.cli.command import GLOBALS, Command, Group
from onward.demo import command as demo

__all__ = ["GLOBALS", "TREE"]

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
