"""The dashboard: what a program makes and mounts.

    dashboard = Dashboard(jobs, auth=Token())
    app.mount("/jobs", dashboard.asgi)

Of a request the host is checked, then who asks is found and compared with the role that the route needs, then the origin
of a write, then the types of query and body; only then a handler is called.  `respond` is all of it, without a
framework and an event loop: the three faces turn their requests into `WebRequest` and send its `Response`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec

from onward.app import Onward
from onward.base.durations import Duration, seconds
from onward.base.logs import get_logger
from onward.errors import OptionError
from onward.operate.offering import unsupported
from onward.web import guard
from onward.web.asgi import AsgiFace
from onward.web.asking import DashboardParts, SessionSettings, WebCall
from onward.web.auth import Auth, Token, User
from onward.web.failures import Refused, refusal_of
from onward.web.handlers import handler_of
from onward.web.pictures import Pictures
from onward.web.rendering import as_error, as_json
from onward.web.request import Response, WebRequest
from onward.web.routes import ROUTES, Route
from onward.web.static_files import page, static_file
from onward.web.tickets import Tickets
from onward.web.wsgi import WsgiFace

__all__ = ["Dashboard"]

logger = get_logger("onward.web")

_MORE_THAN_PAYLOAD = 64 * 1024  # bytes of a body
_NOBODY = User("nobody")
_HOW = (
    "Dashboard(jobs, auth=…) needs auth, which says who may look: auth=Token() for a token in ONWARD_WEB_TOKEN, "
    "auth=ProxyHeader('X-Forwarded-User', trusted=['10.0.0.0/8']) behind a proxy that signs people in, or a function "
    "of your own from a WebRequest to a User or None"
)


class Dashboard:
    """A page and an API over one application.  ``asgi``, ``wsgi`` and ``django()`` are its faces."""

    def __init__(
        self,
        jobs: Onward,
        *,
        auth: Auth | None = None,
        read_only: bool = False,
        title: str = "Onward",
        log_url: str | None = None,
        trace_url: str | None = None,
        **more: Any,
    ) -> None:
        """Make a dashboard.  It reaches no store before the first request.

        ``log_url`` and ``trace_url``: links on the page of a job, with ``{job_id}``, ``{from}``, ``{to}`` (milliseconds) and
        ``{trace_id}``.  ``refresh``: seconds between two looks at the store (2).  ``base_path``: where browsers find it, if
        a proxy changes paths.  ``allowed_hosts``: the only hosts that it answers for.
        """
        if auth is None or not callable(auth):
            raise OptionError(_HOW)
        refresh, base_path, allowed = _checked(**more)
        for name, link in (("log_url", log_url), ("trace_url", trace_url)):
            if link is not None and not link.startswith(("https://", "http://", "/")):
                raise OptionError(f"{name} must begin with https://, http:// or /, not {link!r:.60}")
        self.base_path = base_path
        self.body_limit = jobs.settings.max_payload + _MORE_THAN_PAYLOAD
        self._allowed_hosts = allowed
        self._auth: Auth = auth
        self._parts = DashboardParts(
            jobs=jobs,
            auth=auth,
            pictures=Pictures(jobs, refresh),
            tickets=Tickets(_ticket_key(auth, jobs), time.time),
            settings=SessionSettings(
                title=title, read_only=read_only, refresh=refresh, log_url=log_url, trace_url=trace_url
            ),
            unavailable=unsupported(jobs.backend),
        )

    @cached_property
    def asgi(self) -> AsgiFace:
        """The ASGI application."""
        return AsgiFace(self)

    @cached_property
    def wsgi(self) -> WsgiFace:
        """The WSGI application."""
        return WsgiFace(self)

    def django(self) -> list[Any]:
        """Return URL patterns: ``path("jobs/", include(dashboard.django()))``."""
        from onward.web.django import patterns

        return patterns(self)

    def respond(self, request: WebRequest) -> Response:
        """Answer a request.  Never raises."""
        try:
            response = self._respond(request)
        except Exception as error:
            refused = refusal_of(error, self._parts.pictures.age())
            if refused is None:
                logger.exception("the dashboard could not answer %s %s", request.method, request.path)
                refused = Refused(500, "error", "this could not be answered", fix="see the log of this process")
            response = as_error(refused)
        response.headers = {**guard.HEADERS, **response.headers}
        if isinstance(response.body, bytes):
            response.headers["Content-Length"] = str(len(response.body))
            if request.method == "HEAD":
                response.body = b""
        return response

    def _respond(self, request: WebRequest) -> Response:
        guard.check_host(request, self._allowed_hosts)
        path = request.path.rstrip("/")
        found = [(route, match) for route in ROUTES if (match := route.pattern.fullmatch(path))]
        if not found:
            return _page_or_file(request, path, can_look="look" not in self._parts.unavailable)
        method = "GET" if request.method == "HEAD" else request.method
        for route, match in found:
            if route.method == method:
                return self._answer(route, match.groupdict(), request)
        raise _not_allowed(sorted({route.method for route, _ in found}))

    def _answer(self, route: Route, parameters: dict[str, str], request: WebRequest) -> Response:
        user = self._user_for(route, request)
        if request.is_write:
            guard.check_write(request, self._allowed_hosts)
        query: Any = msgspec.convert(request.query, route.query, strict=False)
        asked = WebCall(
            parts=self._parts,
            request=request,
            user=user,
            parameters=parameters,
            query=query,
            body=_body(route, request),
        )
        if route.path.endswith("/pulse"):
            return self._pulse(route, asked)
        answer = handler_of(route)(asked)
        return answer if isinstance(answer, Response) else as_json(answer)

    def _user_for(self, route: Route, request: WebRequest) -> User:
        """Return who asks, if the route is for that person."""
        if route.role is None:
            return _NOBODY
        user = self._auth(request)
        if user is None:
            is_token = isinstance(self._auth, Token)
            headers = {"WWW-Authenticate": 'Bearer realm="onward"'}
            raise Refused(401, "unauthorized", "sign in to look at this", headers=headers, login=is_token)
        if not user.may(route.role):
            raise Refused(403, "forbidden", f"{route.role} is the role for this, and you are {user.role}")
        if route.everywhere and user.queues is not None:
            raise Refused(403, "forbidden", "this concerns all queues, and you see only some")
        if request.is_write and self._parts.settings.read_only:
            raise Refused(
                403, "read_only", "this dashboard changes nothing", fix="use another one, or the command line"
            )
        return user

    def _pulse(self, route: Route, asked: WebCall) -> Response:
        """Answer with the name of the look: a page that has it already gets nothing but 304."""
        user = asked.user
        tag = f'W/"{self._parts.pictures.picture().tag}-{hash((user.name, user.role, user.queues)) & 0xFFFFFFFF:x}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if asked.request.header("if-none-match") == tag:
            return Response(status=304, headers=headers)
        return as_json(handler_of(route)(asked), headers=headers)


def _body(route: Route, request: WebRequest) -> Any:
    if route.body is None:
        return None
    if request.body is None:
        raise Refused(413, "too_large", "the body is too large, or does not say how large it is")
    return msgspec.json.decode(request.body or b"{}", type=route.body)


def _page_or_file(request: WebRequest, path: str, *, can_look: bool) -> Response:
    """Return a file of the page, or the page itself for every path that is not the API's."""
    if request.is_write:
        raise _not_allowed(["GET"])
    folder, _, name = path.partition("/")
    if folder == "static" and name:
        return static_file(request, name)
    accepts = request.header("accept")
    if folder in ("api", "static") or not (not path or "text/html" in accepts or "*/*" in accepts):
        raise Refused(404, "not_found", f"there is no {path!r:.80} here")
    return page(request, can_look=can_look)


def _not_allowed(methods: Sequence[str]) -> Refused:
    allowed = [*methods, *(["HEAD"] if "GET" in methods else [])]
    headers = {"Allow": ", ".join(allowed)}
    return Refused(405, "method_not_allowed", f"this answers {' and '.join(allowed)}", headers=headers)


def _ticket_key(auth: Auth, jobs: Onward) -> bytes:
    """Return a key that every process with this dashboard has.

    It keeps a ticket as it was shown; who may act is checked again when it is used.
    """
    return auth.key if isinstance(auth, Token) else f"{jobs.settings.url} {jobs.settings.namespace}".encode()


def _checked(
    *,
    refresh: Duration = 2.0,
    base_path: str | None = None,
    allowed_hosts: Sequence[str] | None = None,
) -> tuple[float, str | None, Sequence[str] | None]:
    """Check the options that are about the surroundings."""
    length = seconds(refresh, "refresh")
    if not 0.1 <= length <= 3600:
        raise OptionError(f"refresh must be from 0.1 s to an hour, not {refresh!r}")
    if base_path is not None and not base_path.startswith("/"):
        raise OptionError(f"base_path begins with a slash, such as '/jobs', not {base_path!r:.60}")
    if isinstance(allowed_hosts, str):
        raise OptionError(f"allowed_hosts is a list: [{allowed_hosts!r}]")
    return length, None if base_path is None else base_path.rstrip("/"), allowed_hosts
