"""Which function answers which route.  The table itself, `onward.web.routes`, imports no handler, so all may import it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onward.web.asking import WebCall
from onward.web.openapi import openapi
from onward.web.pages import bulk, dead, flows, job, jobs, limits, overview, queues, schedules, session, workers
from onward.web.routes import API, ROUTES, Route

__all__ = ["handler_of"]

Handler = Callable[[WebCall], Any]

_HANDLERS: Mapping[str, Handler] = {
    f"GET {API}session": session.session,
    f"GET {API}pulse": overview.pulse,
    f"GET {API}series": overview.series,
    f"GET {API}queues": queues.queues,
    f"GET {API}queues/{{queue}}": queues.queue,
    f"GET {API}jobs": jobs.jobs,
    f"GET {API}jobs/{{id}}": job.job,
    f"GET {API}jobs/{{id}}/why": jobs.why,
    f"GET {API}jobs/{{id}}/stack": jobs.stack,
    f"GET {API}groups": dead.groups,
    f"GET {API}groups/{{fingerprint}}": dead.group,
    f"GET {API}workers": workers.workers,
    f"GET {API}schedules": schedules.schedules,
    f"GET {API}schedules/{{name}}": schedules.schedule,
    f"GET {API}flows": flows.flows,
    f"GET {API}flows/{{id}}": flows.flow,
    f"GET {API}limits": limits.limits,
    f"GET {API}health": overview.health,
    f"GET {API}audit": overview.audit,
    f"GET {API}openapi.json": lambda _: openapi(ROUTES),
    f"POST {API}login": session.login,
    f"POST {API}logout": session.logout,
    f"POST {API}queues/{{queue}}/pause": queues.pause,
    f"POST {API}queues/{{queue}}/resume": queues.resume,
    f"POST {API}jobs/{{id}}/retry": jobs.retry,
    f"POST {API}jobs/{{id}}/cancel": jobs.cancel,
    f"POST {API}jobs/{{id}}/replay": jobs.replay,
    f"POST {API}jobs/{{id}}/signal": jobs.signal,
    f"POST {API}jobs/{{id}}/edit": jobs.edit,
    f"POST {API}flows/{{id}}/cancel": flows.cancel,
    f"POST {API}flows/{{id}}/retry": flows.retry,
    f"POST {API}schedules/{{name}}/run": schedules.run,
    f"POST {API}schedules/{{name}}/pause": schedules.pause,
    f"POST {API}schedules/{{name}}/resume": schedules.resume,
    f"POST {API}limits/set": limits.set_limit,
    f"POST {API}limits/clear": limits.clear,
    f"POST {API}limits/shut": limits.shut,
    f"POST {API}limits/open": limits.open_again,
    f"POST {API}bulk/preview": bulk.preview,
    f"POST {API}bulk/run": bulk.run,
    f"POST {API}canary": bulk.canary,
    "GET metrics": session.metrics,
    "GET livez": session.livez,
    "GET readyz": session.readyz,
}


def handler_of(route: Route) -> Handler:
    return _HANDLERS[f"{route.method} {route.path}"]
