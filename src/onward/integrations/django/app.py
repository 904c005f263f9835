"""The application of a Django project, for commands: ``onward worker onward.integrations.django.app:jobs``.

Each alias of TASKS is a name here, and `jobs` is the alias ``default`` where none is called so.  Django is set up at the
first look.
"""

from __future__ import annotations

import logging

from onward.app import Onward
from onward.errors import OptionError

__all__: list[str] = []


def __getattr__(name: str) -> Onward:
    if name.startswith("_"):
        raise AttributeError(name)
    return _application(name)


def _application(name: str) -> Onward:
    import django
    from django.utils.module_loading import autodiscover_modules

    try:
        django.setup()
        autodiscover_modules("tasks")
    except AttributeError as error:  # of the project: passed on, it would say that there are no `jobs` here
        raise RuntimeError(f"AttributeError: {error}") from error
    from onward.integrations.django.backend import OnwardBackend
    from onward.integrations.django.versions import task_backends

    alias = "default" if name == "jobs" and name not in task_backends.settings else name
    if alias not in task_backends.settings:
        raise AttributeError(alias)
    backend = task_backends[alias]
    if not isinstance(backend, OnwardBackend):
        raise OptionError(
            f"TASKS[{alias!r}] has the backend {type(backend).__name__}: set 'BACKEND' to "
            f"'onward.integrations.django.OnwardBackend'"
        )
    _log_once()
    return backend.jobs


def _log_once() -> None:
    """Keep Django's records from the worker's own handler where Django prints them itself: with DEBUG they came twice."""
    logger = logging.getLogger("django")
    if any(isinstance(handler, logging.StreamHandler) for handler in logger.handlers):
        from django.conf import settings

        logger.propagate = not settings.DEBUG
