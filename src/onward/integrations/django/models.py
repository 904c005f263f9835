"""The model behind the admin's pages: it has no table, and is never queried.  Jobs are read through the application."""

from __future__ import annotations

from typing import Any

from django.db import models

__all__ = ["Job"]


class _NoRows(models.Manager):  # type: ignore[misc, unused-ignore]
    """Answers every query with nothing, for commands that go through all models, such as `dumpdata`."""

    def get_queryset(self) -> Any:
        return super().get_queryset().none()


class Job(models.Model):  # type: ignore[misc, unused-ignore]
    """A job of one alias of TASKS, by ``alias:id``."""

    key = models.CharField(primary_key=True, max_length=200)

    objects = _NoRows()

    class Meta:
        """What Django needs to know for permissions and the index of the admin."""

        managed = False
        app_label = "onward"
        base_manager_name = "objects"
        default_permissions = ("view",)
        permissions = (("operate_job", "Can retry, replay and cancel jobs"),)
