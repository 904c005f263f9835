"""One application for each alias of TASKS and each process, behind the backends that Django makes for every thread.

A task is registered where it is declared: Django calls `OnwardBackend.validate_task` for each.  The application itself is
made at its first use, not while Django loads, and made anew when settings of a test name another store.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from django.db import connections

from onward.app import Onward
from onward.backends.opening import scheme_of
from onward.base.names import job_name
from onward.client.bound_job import Job
from onward.config import Settings, load
from onward.errors import DefinitionError, InvalidName, OptionError
from onward.integrations.django.closing import close_all
from onward.integrations.django.databases import url_of
from onward.integrations.django.running import Runs, handler_of
from onward.integrations.django.tasks import check_settings, job_options, secret_places
from onward.integrations.django.telling import tell_of_ends
from onward.integrations.django.versions import InvalidTask

__all__ = ["TASKS", "AliasApplication", "TaskTable", "application", "close_applications", "declared"]

_OURS = ("database", "url", "on_commit", "aliases", "tasks")  # the other options are settings of Onward(...)
_EXAMPLES = {"aliases": "{'old.tasks.send': 'new.tasks.send'}", "tasks": "{'shop.tasks.send': {'max_retries': 5}}"}
_BESIDE_SETTINGS = ("handlers", "queue_handlers", "fair_by", "queue_limits", "clock")


class TaskTable:
    """The tasks that were declared in this process, by module path."""

    def __init__(self) -> None:
        self._tasks: dict[str, Any] = {}

    def add(self, task: Any) -> bool:
        """Remember a task; return whether it is new.  What `using()` makes of one does not replace it."""
        path = task.module_path
        known = self._tasks.get(path)
        if known is not None and known.func is task.func:
            return False
        try:
            job_name(path)
        except InvalidName as error:
            raise InvalidTask(
                f"{path:.240} cannot be the name of a job: {error}.  Move the function to a module with a shorter path, or "
                f"give it a name of ASCII letters"
            ) from None
        self._tasks[path] = task
        return True

    def get(self, path: str) -> Any | None:
        """Return the declared task with this path, or None."""
        return self._tasks.get(path)

    def all(self) -> list[Any]:
        """Return every task that was declared."""
        return list(self._tasks.values())


TASKS = TaskTable()


class AliasApplication:
    """The application of one alias: made at first use, with all tasks of this process."""

    def __init__(self, alias: str, options: Mapping[str, Any]) -> None:
        self.alias = alias
        self.options = dict(options)
        self._lock = threading.RLock()
        self._made: Onward | None = None
        self._made_for: Any = None  # the name of the database that it was made for
        self._jobs: dict[str, Job[..., Any, Any, Any]] = {}

    @property
    def database(self) -> str:
        """The alias of the database whose transactions count."""
        return str(self.options.get("database", "default"))

    @property
    def url(self) -> str:
        """Where the jobs are."""
        return str(self.options["url"]) if "url" in self.options else url_of(self.database)

    @property
    def joins(self) -> bool:
        """Whether the jobs are in one of Django's databases, so that they join its transactions."""
        return "url" not in self.options

    @property
    def waits_for_commit(self) -> bool:
        """Whether jobs that are elsewhere are enqueued after the commit."""
        given = self.options.get("on_commit")
        return self.is_shared if given is None else bool(given)

    @property
    def is_shared(self) -> bool:
        """Whether other processes see the jobs."""
        return scheme_of(self.url) not in ("memory", "sync")

    def settings(self) -> Settings:
        """Return the settings, checked; no store is opened."""
        return load({**self._arguments(_BESIDE_SETTINGS), "url": self.url})

    def _arguments(self, without: tuple[str, ...] = ()) -> dict[str, Any]:
        return {name: value for name, value in self.options.items() if name not in (*_OURS, *without)}

    @property
    def jobs(self) -> Onward:
        """The application itself."""
        place = self._place()
        if self._made is not None and self._made_for == place:
            return self._made
        with self._lock:
            if self._made is None or self._made_for != place:
                self.close()
                self._made, self._made_for = self._make(), place
            return self._made

    def _place(self) -> Any:
        """Return what changes when a test runner gives Django another database."""
        return connections[self.database].settings_dict["NAME"] if self.joins and self.database in connections else None

    def check_options(self) -> None:
        """Raise for options that are ours and wrong."""
        for name in ("aliases", "tasks"):
            if not isinstance(self.options.get(name, {}), Mapping):
                raise OptionError(f"OPTIONS[{name!r}] is a table with paths of tasks, such as {_EXAMPLES[name]}")
        for path, said in self.options.get("tasks", {}).items():
            check_settings(path, said)

    def _make(self) -> Onward:
        self.check_options()
        jobs = Onward(self.url, **self._arguments())
        runs = Runs(self.alias, jobs, TASKS.get)
        jobs.around(runs.around)
        jobs.around(runs.around_async, only="async")
        jobs.client.letters.registry.at_thread_end.append(close_all)
        tell_of_ends(self.alias, jobs, TASKS.get)
        for task in TASKS.all():
            self._bind(jobs, task)
        return jobs

    def job_of(self, task: Any) -> Job[..., Any, Any, Any]:
        """Return the job of a task, registered now if it was not."""
        jobs, path = self.jobs, task.module_path
        found = self._jobs.get(path)
        if found is not None:
            return found
        with self._lock:
            return self._jobs.get(path) or self._bind(jobs, task)

    def add(self, task: Any) -> None:
        """Register a task that is declared after the application was made."""
        with self._lock:
            if self._made is not None and task.module_path not in self._jobs:
                self._bind(self._made, task)

    def _bind(self, jobs: Onward, task: Any) -> Job[..., Any, Any, Any]:
        path = task.module_path
        said = job_options(task, self.options.get("tasks", {}).get(path, {}))
        old = tuple(old for old, new in self._old_paths().items() if new == path)
        bind = jobs.job(name=path, queue=task.queue_name, priority=int(task.priority), aliases=old, **said)
        job = bind(handler_of(task))
        entry = jobs.client.letters.registry.find(path)
        if entry is not None and (secret := secret_places(task)):
            entry.secrets = secret  # type: ignore[misc]  # of a function it is an attribute
        self._jobs[path] = job
        return job

    def _old_paths(self) -> Mapping[str, str]:
        return self.options.get("aliases") or {}

    def close(self) -> None:
        """Close the application; the next use makes another one."""
        with self._lock:
            made, self._made = self._made, None
            self._jobs = {}
        if made is not None:
            made.close()


_applications: dict[str, AliasApplication] = {}
_lock = threading.Lock()


def application(alias: str, options: Mapping[str, Any]) -> AliasApplication:
    """Return the application of an alias, the same in all threads."""
    found = _applications.get(alias)
    if found is None:
        with _lock:
            found = _applications.setdefault(alias, AliasApplication(alias, options))
    return found


def declared(task: Any) -> None:
    """Register a task that was declared, in the applications that are made already too."""
    if TASKS.add(task):
        for each in list(_applications.values()):
            try:
                each.add(task)
            except DefinitionError as error:
                raise InvalidTask(str(error)) from error


def close_applications() -> None:
    """Close all applications: TASKS has changed."""
    with _lock:
        closed = list(_applications.values())
        _applications.clear()
    for each in closed:
        each.close()
