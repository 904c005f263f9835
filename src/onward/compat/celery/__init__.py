"""Celery's words on Onward: ``from onward.compat.celery import Celery, shared_task`` in place of ``from celery import …``.

Tasks become jobs, ``beat_schedule`` becomes schedules, the canvas becomes flows.  What has no meaning here is refused where
it is said, with the fix.  The modules have the names of Celery's, so that one replacement in the imports moves a program:
`exceptions`, `result`, `schedules`, `signals`, `states`, `utils`.
Read `task`, with `plain` (what travels), then `options` (what each option becomes), `conf` and `app`, with `current`; then
`canvas` with `feeding`, `result`, and `schedules` with `importing`.  `refusing` tells what to write instead of names
that are not here; `choosing` and `beside` are for two systems at once; `protocols` is what these ask of each other.
"""

from __future__ import annotations

from typing import Any

from onward.compat.celery.app import Celery, shared_task
from onward.compat.celery.canvas import Signature, chain, chord, group, signature
from onward.compat.celery.result import AsyncResult, GroupResult
from onward.compat.celery.schedules import crontab
from onward.compat.celery.task import Task
from onward.errors import OptionError

__all__ = [
    "AsyncResult",
    "Celery",
    "GroupResult",
    "Signature",
    "Task",
    "chain",
    "chord",
    "crontab",
    "group",
    "shared_task",
    "signature",
]

_REFUSED = {
    "current_app": "import the app by its module",
    "current_task": "declare the task with bind=True, and use its self",
    "chunks": "use group(task.s(part) for part in parts)",
    "xmap": "use group(task.s(item) for item in items)",
    "xstarmap": "use group(task.s(*items) for items in rows)",
    **dict.fromkeys(("maybe_signature", "subtask"), "use signature(name, args=…)"),
    "uuid": "Onward makes the ids; give onward={'unique_key': …} for one live job per key",
}


def __getattr__(name: str) -> Any:
    if name in _REFUSED:
        raise OptionError(f"onward.compat.celery has no {name!r}: {_REFUSED[name]}")
    raise AttributeError(f"module 'onward.compat.celery' has no attribute {name!r}")
