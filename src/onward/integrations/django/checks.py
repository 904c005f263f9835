"""What `manage.py check` says about one alias of TASKS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.checks import Error, Info, Warning  # noqa: A004  Django's word
from django.db import connections
from django.utils.module_loading import import_string

from onward.backends.opening import open_store
from onward.errors import OnwardError
from onward.integrations.django.applications import AliasApplication
from onward.integrations.django.databases import MemoryDatabase, NoJobsThere, UnreadableOption
from onward.integrations.django.versions import Task, task_backends

__all__ = ["check_alias", "check_when_tasks_are_stored"]


def check_alias(application: AliasApplication) -> list[Any]:
    """Return the messages of an alias, without opening its store."""
    return list(_messages(application))


def _messages(application: AliasApplication) -> Iterator[Any]:
    here = f"TASKS[{application.alias!r}]"
    try:
        settings = application.settings()
        application.check_options()
        open_store(settings).close()  # the scheme and the driver; no server is reached
    except MemoryDatabase as error:
        yield Error(str(error), obj=here, id="onward.E002")
        return
    except UnreadableOption as error:
        yield Error(str(error), obj=here, id="onward.E003")
        return
    except NoJobsThere as error:
        yield Error(str(error), obj=here, id="onward.E001")
        return
    except (OnwardError, TypeError, ValueError) as error:
        hint = "OPTIONS takes database, url, on_commit, aliases, tasks and the settings of Onward(...)"
        yield Error(str(error), hint=hint, obj=here, id="onward.E003")
        return
    if not application.is_shared:  # memory:// and sync:// are for tests
        return
    if settings.default_max_retries == 0:
        yield Warning(
            "a task that fails is not retried unless it says so: default_max_retries is 0",
            hint="set OPTIONS['default_max_retries'] = 3; if 0 is meant, SILENCED_SYSTEM_CHECKS = ['onward.W001']",
            obj=here,
            id="onward.W001",
        )
    yield from _of_paths(application, here)
    yield from _of_connections(here)


def _of_paths(application: AliasApplication, here: str) -> Iterator[Any]:
    """Tell of paths that lead to no task: what is said of them would be ignored."""
    for path in (*application.options.get("tasks", {}), *application.options.get("aliases", {}).values()):
        try:
            found, why = import_string(path), ""
        except Exception as error:  # noqa: BLE001  a module of the project may raise anything
            found, why = None, f" ({type(error).__name__}: {error})"
        if not isinstance(found, Task):
            yield Warning(
                f"OPTIONS names {path!r}, which is no task{why}",
                hint="a task is named by its module and its function, as in 'shop.tasks.send'",
                obj=here,
                id="onward.W003",
            )


def check_when_tasks_are_stored(**_: Any) -> list[Any]:
    """Return when tasks of each alias are stored, for ``check --deploy``: on every command it would be noise."""
    found = [task_backends[alias] for alias in task_backends.settings]
    return [
        Info(_when(backend.application), obj=f"TASKS[{backend.alias!r}]", id="onward.I001")
        for backend in found
        if isinstance(getattr(backend, "application", None), AliasApplication)
    ]


def _of_connections(here: str) -> Iterator[Any]:
    for alias in connections:
        settings = connections[alias].settings_dict
        if settings.get("CONN_MAX_AGE", 0) is None and connections[alias].vendor != "sqlite":
            yield Warning(
                f"CONN_MAX_AGE of the database {alias!r} is None: each thread of a worker keeps its connection for ever",
                hint="plan for two connections for each --concurrency of each worker process, or set CONN_MAX_AGE = 0",
                obj=here,
                id="onward.W002",
            )


def _when(application: AliasApplication) -> str:
    if application.joins:
        return (
            f"tasks are enqueued in the transactions of the database {application.database!r}, and roll back with them"
        )
    if application.waits_for_commit:
        return f"tasks are stored elsewhere: in a transaction of {application.database!r} they are enqueued after its commit"
    return "tasks are stored elsewhere, and are enqueued at once, also in a transaction that is rolled back later"
