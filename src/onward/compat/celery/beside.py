"""Celery itself, for tasks that stay there while others move: its application, its decorator, its schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from onward.base.durations import seconds
from onward.compat.celery.choosing import celery_itself, is_onwards
from onward.compat.celery.conf import Conf
from onward.compat.celery.schedules import Crontab

__all__ = ["celery_app", "declared_by_celery"]


def celery_app(main: str | None, options: Mapping[str, Any], conf: Conf) -> Any:
    """Make Celery's own application with the same settings, and the entries of `beat_schedule` that stay there."""
    celery = celery_itself(f"tasks of {main}" if main else "tasks")
    made = celery.Celery(main, **options)
    settings = dict(conf)
    entries = settings.pop("beat_schedule", {})
    settings["beat_schedule"] = {
        name: {**entry, "schedule": _schedule(entry["schedule"])}
        for name, entry in entries.items()
        if not is_onwards(entry["task"])
    }
    made.conf.update(settings)
    return made


def declared_by_celery(decorator: Any, function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """Make a function a task of Celery's, by a decorator of its own, without what only Onward knows."""
    return decorator(**{name: value for name, value in options.items() if name != "onward"})(function)


def _schedule(given: Any) -> Any:
    """Return what Celery's beat reads for what this module's `crontab` and `schedule` return."""
    from celery.schedules import crontab

    if isinstance(given, Crontab):
        minute, hour, day, month, weekday = given.expression.split()
        return crontab(minute=minute, hour=hour, day_of_month=day, month_of_year=month, day_of_week=weekday)
    if isinstance(given, str):
        return timedelta(seconds=seconds(given.removeprefix("@every ")))
    return given
