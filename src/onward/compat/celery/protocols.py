"""What tasks, results and the canvas ask of each other, and of the application."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from onward.app import Onward
from onward.client.bound_job import Job
from onward.compat.celery.conf import Conf

__all__ = ["OfApplication", "OfTask"]


class OfTask(Protocol):
    """A task, as an application and a canvas know it."""

    name: str
    said: dict[str, Any]
    function: Callable[..., Any]

    @property
    def app(self) -> OfApplication: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def apply_async(
        self, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Any: ...

    def checked(
        self, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None, *, fed: bool = False
    ) -> tuple[list[Any], dict[str, Any]]: ...


class OfApplication(Protocol):
    """An application, as its tasks and results know it."""

    conf: Conf

    @property
    def onward(self) -> Onward: ...

    def using(
        self, task: Any, options: Mapping[str, Any], meta: Mapping[str, Any] | None = None
    ) -> Job[..., Any, Any, Any]: ...

    def knows(self, name: str) -> bool: ...

    def task_named(self, name: str) -> Any: ...

    def send_task(
        self, name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Any: ...
