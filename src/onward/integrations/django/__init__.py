"""Django: a backend of its tasks, a command that runs workers, checks, tables with ``migrate``, pages in the admin.

    INSTALLED_APPS = [..., "onward.integrations.django"]
    TASKS = {"default": {"BACKEND": "onward.integrations.django.OnwardBackend"}}

Called by Django, and by its users through the names below.  Read `versions`, `backend` with `sending` (what joins a
transaction) and `results`, `applications` with `databases` and `tasks` (what can be said of a task), `running` with
`closing` (connections) and `telling` (ends without a run); then `app`, which a worker imports, `management`, `apps`,
`checks`, `models`, `admin` with `pages`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onward.integrations.django.backend import OnwardBackend
    from onward.integrations.django.running import OnwardTaskContext
    from onward.integrations.django.tasks import onward_using, options
    from onward.integrations.django.versions import task, task_backends

__all__ = ["OnwardBackend", "OnwardTaskContext", "onward_using", "options", "task", "task_backends"]

_HOMES = {
    "OnwardBackend": "backend",
    "OnwardTaskContext": "running",
    "onward_using": "tasks",
    "options": "tasks",
    "task": "versions",
    "task_backends": "versions",
}


def __getattr__(name: str) -> Any:
    # Late: Django imports this package for its list of applications before the settings are complete.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
