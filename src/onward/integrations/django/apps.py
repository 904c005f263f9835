"""The Django application: its tables come with `migrate`, and changed settings make new applications."""

from __future__ import annotations

from contextlib import closing
from functools import wraps
from typing import Any

from django.apps import AppConfig
from django.core.checks import register
from django.core.signals import setting_changed
from django.db.backends.base.creation import BaseDatabaseCreation
from django.db.models.signals import post_migrate

__all__ = ["OnwardConfig"]


class OnwardConfig(AppConfig):  # type: ignore[misc, unused-ignore]
    """Onward among INSTALLED_APPS."""

    name = "onward.integrations.django"
    label = "onward"
    verbose_name = "Onward"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Subscribe to what Django tells its applications."""
        from onward.integrations.django.checks import check_when_tasks_are_stored

        register(check_when_tasks_are_stored, "onward", deploy=True)
        post_migrate.connect(_migrate, sender=self, dispatch_uid="onward.migrate")
        setting_changed.connect(_forget, dispatch_uid="onward.forget")
        _close_before_test_databases_are_dropped()


def _migrate(using: str, verbosity: int = 1, **_: Any) -> None:
    """Bring the tables of the jobs up to date, in the database that was migrated."""
    from onward.backends.opening import tables_of
    from onward.integrations.django.backend import OnwardBackend
    from onward.integrations.django.databases import NoJobsThere
    from onward.integrations.django.versions import task_backends

    for backend in task_backends.all():
        if (
            not isinstance(backend, OnwardBackend)
            or not backend.application.joins
            or backend.application.database != using
        ):
            continue
        try:
            settings = backend.application.settings()
        except NoJobsThere as error:
            if verbosity:
                print(f"  No tables for the jobs of TASKS[{backend.alias!r}]: {error}")  # noqa: T201  as `migrate` does
            continue
        with closing(tables_of(settings)) as tables:
            tables.migrate()
        if verbosity:
            print(f"  Tables for the jobs of TASKS[{backend.alias!r}] are up to date in {using!r}")  # noqa: T201


def _close_before_test_databases_are_dropped() -> None:
    """Close Onward's connections first: PostgreSQL drops no database that has some, and Django has no signal for it."""
    drop = BaseDatabaseCreation.destroy_test_db
    if hasattr(drop, "closes_onward"):
        return

    @wraps(drop)
    def destroy_test_db(self: Any, *args: Any, **kwargs: Any) -> Any:
        from onward.integrations.django.applications import close_applications

        close_applications()
        return drop(self, *args, **kwargs)

    destroy_test_db.closes_onward = True  # type: ignore[attr-defined]
    BaseDatabaseCreation.destroy_test_db = destroy_test_db


def _forget(*, setting: str, **_: Any) -> None:
    if setting in ("TASKS", "DATABASES"):
        from onward.integrations.django.applications import close_applications

        close_applications()
