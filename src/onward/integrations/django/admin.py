"""Jobs in the admin: a list with filters, one job with its runs, and two buttons for those who may operate them."""

from __future__ import annotations

from typing import Any

from django import VERSION
from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.module_loading import autodiscover_modules

from onward.app import Onward
from onward.errors import ArgumentError
from onward.integrations.django.models import Job
from onward.integrations.django.pages import JobPage, JobsPage, jobs_of

__all__ = ["JobAdmin"]


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):  # type: ignore[misc, unused-ignore]
    """The pages read the store through the application, so that they are the same on every store."""

    def has_add_permission(self, request: Any) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
        """Show a page of jobs."""
        self._refuse_strangers(request)
        page = JobsPage(request.GET)
        keys = [(quote(f"{page.alias}:{record.id}"), record) for record in page.jobs]
        return self._rendered(request, "job_list", "Jobs", page=page, rows=keys, **(extra_context or {}))

    def change_view(self, request: Any, object_id: str, form_url: str = "", extra_context: Any = None) -> Any:
        """Show one job; retry or cancel it."""
        self._refuse_strangers(request)
        alias, _, job_id = unquote(object_id).partition(":")
        jobs = jobs_of(alias)
        page = None if jobs is None else _page(alias, jobs, job_id)
        if jobs is None or page is None:
            raise Http404(f"there is no job {job_id} of TASKS[{alias!r}]")
        operates = request.user.has_perm("onward.operate_job")
        if request.method == "POST":
            if not operates:
                raise PermissionDenied
            messages.info(request, _operated(jobs, job_id, request.POST.get("act"), by=str(request.user)))
            return HttpResponseRedirect(reverse("admin:onward_job_change", args=[quote(f"{alias}:{job_id}")]))
        shown = {"page": page, "operates": operates, **(extra_context or {})}
        return self._rendered(request, "job_detail", page.record.job, **shown)

    def _refuse_strangers(self, request: Any) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def _rendered(self, request: Any, template: str, title: str, **context: Any) -> Any:
        shared = {**self.admin_site.each_context(request), "title": title, "opts": self.model._meta}  # noqa: SLF001  Django's own
        shared["crumbs_are_a_list"] = VERSION >= (6, 1)
        return TemplateResponse(request, f"onward/{template}.html", {**shared, **context})


def _page(alias: str, jobs: Onward, job_id: str) -> JobPage | None:
    try:
        record = jobs.get(job_id)
        if record is not None and not record.is_defined:  # its module may not have been imported in this process yet
            autodiscover_modules("tasks")
            record = jobs.get(job_id)
        return None if record is None else JobPage(alias, record, jobs.why(job_id))
    except ArgumentError:  # it is no id
        return None


def _operated(jobs: Onward, job_id: str, act: str | None, *, by: str) -> str:
    if act == "retry":
        return (
            "It runs as soon as a worker is free" if jobs.retry(job_id, by=by) else "It cannot be retried as it is now"
        )
    if act == "cancel":
        state = jobs.cancel(job_id, "cancelled in the admin", by=by)
        return "It has ended already" if state is None else f"Asked to cancel: it is {state.value}"
    return f"There is no act {act!r:.40}"
