"""`OnwardBackend`: what Django asks of a backend of `django.tasks`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import autodiscover_modules

from onward.app import Onward
from onward.backend import Inline
from onward.base.clock import from_micros
from onward.base.names import queue_name
from onward.errors import ArgumentError, DefinitionError, InvalidName, OptionError
from onward.integrations.django.applications import TASKS, AliasApplication, application, declared
from onward.integrations.django.results import local, new_result, result_of
from onward.integrations.django.sending import read, send
from onward.integrations.django.tasks import OnwardTask, using_options
from onward.integrations.django.versions import BaseTaskBackend, InvalidTask, TaskResultDoesNotExist, task_enqueued

__all__ = ["OnwardBackend"]


class OnwardBackend(BaseTaskBackend):  # type: ignore[misc, unused-ignore]
    """Stores tasks as jobs.  Django makes one for each thread; all of an alias share one application."""

    task_class = OnwardTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)

    @property
    def application(self) -> AliasApplication:
        """What all threads of this alias share."""
        return application(self.alias, self.options)

    @property
    def jobs(self) -> Onward:
        """The application behind this alias: to look, to steer, to run a worker in this process."""
        return self.application.jobs

    def validate_task(self, task: Any) -> None:
        """Refuse a task that could not be run, and register it: every declaration comes by here."""
        super().validate_task(task)
        try:
            queue_name(task.queue_name)
        except InvalidName as error:
            raise InvalidTask(f"{task.module_path}: {error}") from None
        declared(task)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Store a call of a task: see `onward.integrations.django.sending` for when."""
        self.validate_task(task)
        result = new_result(task, self.alias, args, kwargs)
        envelope = self._sealed(task, result)
        object.__setattr__(result, "id", envelope.id)
        object.__setattr__(result, "enqueued_at", local(from_micros(envelope.enqueued_at)))
        runs_at_once = isinstance(self.jobs.backend, Inline)
        if runs_at_once:
            self._told(result)
        answer = send(self.application, envelope, lambda: None if runs_at_once else self._told(result))
        if answer is not None and not answer.created:  # another job has its unique key
            return self.get_result(answer.existing_id or answer.id)
        if runs_at_once and answer is not None:
            result.refresh()
        return result

    def _sealed(self, task: Any, result: Any) -> Any:
        said = using_options(task)
        if task.run_after is not None:
            said["at"] = _aware(task.run_after)
        said["meta"] = {**said.get("meta", {}), "django": self.alias}
        try:
            (envelope,) = self.application.job_of(task).using(**said).sealed([((result.args, result.kwargs), {})])
        except (DefinitionError, OptionError) as error:
            raise InvalidTask(f"{task.module_path}: {error}") from error
        return envelope

    def _told(self, result: Any) -> None:
        task_enqueued.send(type(self), task_result=result)

    def get_result(self, result_id: str) -> Any:
        """Return the result of a task, also of one that was enqueued in the transaction that is open here."""
        try:
            record = read(self.application, result_id)
        except ArgumentError:  # it is no id
            record = None
        if record is None or record.meta.get("django") != self.alias:
            raise TaskResultDoesNotExist(result_id)
        name = self._declared_name(record.job)
        task = None if name is None else TASKS.get(name)
        if task is None:
            raise TaskResultDoesNotExist(result_id)
        return result_of(task, self.alias, record)

    def _declared_name(self, name: str) -> str | None:
        """Return the path of a task that is or was called so; the modules `tasks` of all applications are imported once."""
        registry = self.jobs.client.letters.registry
        if registry.find(name) is None:
            autodiscover_modules("tasks")
        entry = registry.find(name)
        return None if entry is None else entry.definition.name

    def check(self, **kwargs: Any) -> Iterable[Any]:
        """Return what is wrong with the settings of this alias."""
        from onward.integrations.django.checks import check_alias

        return check_alias(self.application)


def _aware(instant: datetime) -> datetime:
    return instant if settings.USE_TZ or timezone.is_aware(instant) else timezone.make_aware(instant)
