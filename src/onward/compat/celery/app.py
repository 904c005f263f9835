"""The application, in Celery's words: it declares tasks, reads settings and schedules, and has an `Onward` behind it.

Tasks are registered when they are first used, or all together when `Celery.jobs` is read, as `onward worker
shop.celery:app.jobs` does: settings may be made after the tasks are declared.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onward.app import Onward
from onward.base.names import suggestion
from onward.client.bound_job import Job
from onward.compat.celery.beside import celery_app, declared_by_celery
from onward.compat.celery.canvas import Signature, signature
from onward.compat.celery.choosing import celery_itself, is_onwards
from onward.compat.celery.conf import Conf
from onward.compat.celery.current import CURRENT
from onward.compat.celery.options import check_call, job_options, using_options
from onward.compat.celery.plain import plain
from onward.compat.celery.result import AsyncResult
from onward.compat.celery.schedules import BeatEntry, beat_entries
from onward.compat.celery.task import Task, handler_of, secret_places
from onward.errors import DefinitionError, InvalidSchedule, OptionError

__all__ = ["Celery", "shared_task"]

_OF_CELERY = ("broker", "backend", "result_backend")  # for tasks that stay with Celery
_NOT_HERE = {
    "control": "revoke a task with AsyncResult(id).revoke(); `onward worker list` and `onward top` show the workers",
    "worker_main": "run `onward worker module:app.jobs`",
    "Worker": "run `onward worker module:app.jobs`, or app.jobs.worker() in this process",
    "Beat": "workers book schedules themselves: there is no beat to run",
    "on_after_configure": "write app.conf.beat_schedule, or app.add_periodic_task(…) at the top of a module",
    "on_after_finalize": "write app.conf.beat_schedule, or app.add_periodic_task(…) at the top of a module",
    "Task": "wrap the runs of all tasks with @app.jobs.around instead of a class of your own",
    "connection": "Onward keeps its own connections: use app.jobs",
    "pool": "Onward keeps its own connections: use app.jobs",
    "events": "subscribe to events, app.jobs.on(…)",
    "start": "run `onward worker module:app.jobs`",
    "close": "close the store, app.onward.close()",
    "register_task": "declare a function, @app.task: classes of tasks have no meaning here",
    "current_task": "declare the task with bind=True, and use its self",
    "current_worker_task": "declare the task with bind=True, and use its self",
    "config_from_envvar": "write app.config_from_object(os.environ[…])",
    "config_from_cmdline": "write app.conf.update(…)",
    "add_defaults": "write app.conf.update(…)",
    "finalize": "leave it out: tasks are declared when app.jobs is read",
    "timezone": "read app.conf.timezone",
    "now": "write datetime.now(UTC)",
    "GroupResult": "keep what the group returned, or its ids: AsyncResult(id) finds each",
    "ResultSet": "keep a list of results",
    **dict.fromkeys(("set_current", "set_default"), "leave it out: the newest application is the current one"),
    **dict.fromkeys(
        ("log", "steps", "user_options", "on_after_fork", "on_configure", "on_init"),
        "write it at the top of the module that `onward worker` imports; logging is set up there, too",
    ),
}
_NOT_TAKEN = {
    "task_cls": _NOT_HERE["Task"],
    "changes": "write app.conf.update(…)",
    "strict_typing": "write typing=False at the tasks whose arguments are not to be checked",
    **dict.fromkeys(
        ("loader", "amqp", "events", "log", "control", "tasks", "fixups", "autofinalize"),
        "leave it out: it is a part of Celery itself",
    ),
}


class Celery:
    """An application: ``app = Celery("shop")``.  Its store is named by Onward's settings, or ``jobs`` is an `Onward`.

    ``broker`` and ``backend`` are Celery's: they count for tasks that ``ONWARD_CELERY_TASKS`` leaves there.
    """

    def __init__(
        self,
        main: str | None = None,
        *,
        jobs: Onward | None = None,
        include: Iterable[str] = (),
        config_source: Any = None,
        namespace: str | None = None,
        set_as_current: bool = True,
        **of_celery: Any,
    ) -> None:
        for option in of_celery:
            if option in _NOT_TAKEN:
                raise OptionError(f"Celery(…) takes no {option!r} here: {_NOT_TAKEN[option]}")
            if option not in _OF_CELERY:
                raise OptionError(
                    f"Celery(…) takes no {option!r} here{suggestion(option, (*_OF_CELERY, 'jobs', 'include'))}"
                )
        self.main = main
        self.conf = Conf()
        self.tasks: dict[str, Task] = {}
        self.of_celery = of_celery
        self._include = list(include)
        self._discover: list[Callable[[], object]] = []
        self._bound: dict[str, Job[..., Any, Any, Any]] = {}
        self._scheduled: set[str] = set()
        self._made = jobs
        self._beside: Any = None
        self._lock = threading.RLock()
        if config_source is not None:
            self.config_from_object(config_source, namespace)
        if set_as_current:
            CURRENT.set(self)

    # Declaring

    def task(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a function a task: ``@app.task`` or ``@app.task(bind=True, max_retries=5)``."""
        if function is None:
            return lambda decorated: self._declare(decorated, options)
        return self._declare(function, options)

    def _declare(self, function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
        name = _name_of(function, options, self.main)
        if not is_onwards(name):
            return declared_by_celery(self.celery.task, function, {**options, "name": name})
        task = Task(function, name, options, self)
        _add(task, self.tasks)
        return task

    def config_from_object(self, source: Any, namespace: str | None = None, **_: Any) -> None:
        """Read settings from a module, an object or its name: ``"django.conf:settings", namespace="CELERY"``."""
        self.conf.read(source, namespace)

    def autodiscover_tasks(
        self, packages: Sequence[str] | Callable[[], Sequence[str]] | None = None, related_name: str = "tasks", **_: Any
    ) -> None:
        """Import the module ``tasks`` of each package, when `jobs` is read; of Django's applications if none is named."""
        self._discover.append(lambda: _discover(packages, related_name))

    def add_periodic_task(
        self, schedule: Any, sig: Signature, args: Sequence[Any] = (), name: str | None = None, **options: Any
    ) -> str:
        """Add an entry to `beat_schedule`."""
        key = name or sig.name
        entry = {"task": sig.name, "schedule": schedule, "args": (*args, *sig.args), "kwargs": sig.kwargs}
        self.conf.beat_schedule = {**self.conf.beat_schedule, key: {**entry, "options": {**sig.options, **options}}}
        return key

    # What is behind it

    @property
    def onward(self) -> Onward:
        """The application of Onward, made at first use."""
        with self._lock:
            if self._made is None:
                self._made = Onward("sync://") if self.conf.task_always_eager else Onward()
            return self._made

    @property
    def jobs(self) -> Onward:
        """The same with all tasks and schedules declared: ``onward worker shop.celery:app.jobs``."""
        with self._lock:
            for module in (*self._include, *(self.conf.include or ()), *(self.conf.imports or ())):
                importlib.import_module(module)
            while self._discover:
                self._discover.pop()()
            for task in (*CURRENT.shared.values(), *self.tasks.values()):
                self.job_of(task)
            self._declare_schedules()
        return self.onward

    @property
    def celery(self) -> Any:
        """Celery's own application, with the tasks and the entries of `beat_schedule` that stay there."""
        with self._lock:
            if self._beside is None:
                self._beside = celery_app(self.main, self.of_celery, self.conf)
            return self._beside

    def job_of(self, task: Task) -> Job[..., Any, Any, Any]:
        """Return the job of a task, registered now if it was not."""
        found = self._bound.get(task.name)
        if found is not None:
            return found
        with self._lock:
            if task.name not in self._bound:
                self._bound[task.name] = self._bind(task)
            return self._bound[task.name]

    def _bind(self, task: Task) -> Job[..., Any, Any, Any]:
        options = job_options({**self.conf.defaults(task.name), **task.said})
        job: Job[..., Any, Any, Any] = self.onward.job(name=task.name, **options)(handler_of(task))
        entry = self.onward.client.letters.registry.find(task.name)
        if entry is not None and (secret := secret_places(task)):
            entry.secrets = tuple(secret)  # type: ignore[misc]  # of a function it is an attribute
        return job

    # Calling

    def using(
        self, task: Task, options: Mapping[str, Any], meta: Mapping[str, Any] | None = None
    ) -> Job[..., Any, Any, Any]:
        """Return the job of a task with the options of a call."""
        job, said = self.job_of(task), using_options(options, self.conf.zone)
        if meta:
            said["meta"] = {**said.get("meta", {}), **meta}
        return job.using(**said) if said else job

    def send_task(
        self, name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncResult:
        """Enqueue a task by its name, which another program may know."""
        if self.knows(name):
            return self.task_named(name).apply_async(args, kwargs, **options)
        check_call(name, options)
        payload = {"args": plain(list(args or ()), name), "kwargs": plain(dict(kwargs or {}), name)}
        handle = self.onward.enqueue(name, payload, **using_options(options, self.conf.zone))
        return AsyncResult(handle.id, app=self)

    def knows(self, name: str) -> bool:
        """Return whether a task of this name is declared here."""
        return name in self.tasks or name in CURRENT.shared

    def task_named(self, name: str) -> Task:
        """Return the task of this name; raise if none is declared here."""
        found: Task | None = self.tasks.get(name) or CURRENT.shared.get(name)
        if found is None:
            known = [*self.tasks, *CURRENT.shared]
            hint = suggestion(name, known) if known else ""
            raise OptionError(f"there is no task {name!r}{hint}; import the module that declares it")
        return found

    def signature(self, *args: Any, **kwargs: Any) -> Signature:
        return signature(*args, **kwargs)

    def AsyncResult(self, id: str) -> AsyncResult:  # noqa: A002, N802  Celery's words
        return AsyncResult(id, app=self)

    # Schedules

    def schedules(self) -> list[BeatEntry]:
        """Return the entries of `beat_schedule` whose tasks are Onward's."""
        return [entry for entry in beat_entries(self.conf.beat_schedule) if is_onwards(entry.task)]

    def _declare_schedules(self) -> None:
        for entry in self.schedules():
            if entry.name in self._scheduled:
                continue
            try:
                task = self.task_named(entry.task)
            except OptionError as error:
                raise InvalidSchedule(f"beat_schedule[{entry.name!r}]: {error}") from None
            check_call(f"beat_schedule[{entry.name!r}]", entry.options)
            args, kwargs = task.checked(entry.args, entry.kwargs)
            declare = self.onward.schedule(
                entry.expression,
                name=entry.name,
                tz=self.conf.zone,
                overlap="allow",  # beat does not wait for the run before
                args={"args": args, "kwargs": kwargs},
            )
            declare(self.using(task, entry.options))
            self._scheduled.add(entry.name)

    if not TYPE_CHECKING:  # to a type checker, there would be every attribute

        def __getattr__(self, name: str) -> Any:
            if name in _NOT_HERE:
                raise OptionError(f"app.{name} has no meaning here: {_NOT_HERE[name]}")
            raise AttributeError(f"a Celery application has no attribute {name!r} here")

    def __repr__(self) -> str:
        return f"<Celery {self.main} on Onward>"


def shared_task(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a task of whichever application the program makes: ``@shared_task``, with options or without."""
    if function is None:
        return lambda decorated: _share(decorated, options)
    return _share(function, options)


def _share(function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    name = _name_of(function, options, None)
    if not is_onwards(name):
        return declared_by_celery(celery_itself(name).shared_task, function, {**options, "name": name})
    task = Task(function, name, options, None)
    _add(task, CURRENT.shared)
    return task


def _add(task: Task, tasks: dict[str, Task]) -> None:
    other = tasks.get(task.name)
    if other is not None and _place(other.function) != _place(task.function):
        raise DefinitionError(f"there are two tasks named {task.name!r}: give one of them another, name=…")
    tasks[task.name] = task


def _place(function: Callable[..., Any]) -> tuple[str, str]:
    return function.__module__, function.__qualname__


def _name_of(function: Any, options: Mapping[str, Any], main: str | None) -> str:
    """Return the name of a task as Celery makes it."""
    if not callable(function) or isinstance(function, type):
        raise OptionError("a task is made of a function; options are keywords: @app.task(queue='mail')")
    if options.get("name"):
        return str(options["name"])
    module = main if function.__module__ == "__main__" and main else function.__module__
    return f"{module}.{function.__name__}"


def _discover(packages: Sequence[str] | Callable[[], Sequence[str]] | None, related_name: str) -> None:
    if packages is None:
        try:
            from django.utils.module_loading import autodiscover_modules
        except ImportError:
            raise OptionError(
                "autodiscover_tasks() looks through Django's applications: name packages, ['shop']"
            ) from None
        autodiscover_modules(related_name)
        return
    for package in packages() if callable(packages) else packages:
        name = f"{package}.{related_name}"
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name not in (name, package):  # what the module itself imports is missing
                raise


CURRENT.make = Celery
