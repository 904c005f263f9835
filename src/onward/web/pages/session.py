"""Signing in and out, who looks, and what process and store say of themselves."""

from __future__ import annotations

from onward.base.credentials import without_credentials
from onward.errors import BackendError, Unsupported
from onward.telemetry import families
from onward.telemetry.exposition import CONTENT_TYPE, MetricValue, build_info, exposition
from onward.version import __version__, build
from onward.web.act_answers import DoneAnswer
from onward.web.answers import SessionAnswer
from onward.web.asking import DashboardParts, WebCall
from onward.web.auth import Token, User
from onward.web.failures import Refused
from onward.web.rendering import as_json
from onward.web.request import Response
from onward.web.routes import ROUTES

__all__ = ["acts_of", "livez", "login", "logout", "metrics", "readyz", "session"]

_NOT_YOURS = "it concerns all queues, and you see only {}"


def session(asked: WebCall) -> SessionAnswer:
    return _session(asked.parts, asked.user)


def login(asked: WebCall) -> Response:
    """Exchange a token for a cookie."""
    auth = asked.parts.auth
    if not isinstance(auth, Token):
        raise Refused(404, "not_found", "there are no tokens here: who may look is decided elsewhere")
    user = auth.user_of(asked.body.token, asked.request.peer)
    if user is None:
        raise Refused(401, "unauthorized", "this token is not right", login=True)

    cookie = auth.cookie_for(asked.body.token, asked.request)
    return as_json(_session(asked.parts, user), headers={"Set-Cookie": cookie})


def logout(asked: WebCall) -> Response:

    auth = asked.parts.auth
    headers = {"Set-Cookie": auth.no_cookie(asked.request)} if isinstance(auth, Token) else {}
    return as_json(
        DoneAnswer(done=bool(headers), text="signed out" if headers else "sign out elsewhere"), headers=headers
    )


def acts_of(user: User, *, read_only: bool) -> list[str]:
    """Return what a role allows."""
    routes = [] if read_only else [route for route in ROUTES if route.act and route.role and user.may(route.role)]
    acts = {route.act: None for route in routes if route.act}
    return [*acts, *(["purge"] if acts and user.may("admin") else [])]


def _session(parts: DashboardParts, user: User) -> SessionAnswer:
    settings, jobs = parts.settings, parts.jobs
    unavailable = dict(parts.unavailable)
    if user.queues is not None:
        told = _NOT_YOURS.format(", ".join(user.queues) or "none")
        unavailable |= {part: told for part in ("flows", "flow", "audit") if part not in unavailable}
    return SessionAnswer(
        name=user.name,
        role=user.role,
        queues=None if user.queues is None else list(user.queues),
        acts=acts_of(user, read_only=settings.read_only),
        unavailable=unavailable,
        title=settings.title,
        read_only=settings.read_only,
        can_log_out=isinstance(parts.auth, Token),
        refresh=settings.refresh,
        store=without_credentials(jobs.settings.store or jobs.settings.url),
        namespace=jobs.settings.namespace,
        version=__version__,
        build=build(),
        log_url=settings.log_url,
        trace_url=settings.trace_url,
    )


def metrics(asked: WebCall) -> Response:
    """Return what the store holds: the same numbers from every process that looks."""
    store = asked.parts.pictures.metrics
    held = store.samples()
    text = exposition([(families.STORE_UP, [MetricValue((), int(store.is_up))]), build_info(), *held])
    return Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})


def livez(asked: WebCall) -> Response:  # noqa: ARG001
    return _plain(200, "ok\n")


def readyz(asked: WebCall) -> Response:
    """Return whether the store answers; no more, for everybody may ask."""
    try:
        asked.parts.pictures.picture()
    except Unsupported:
        pass
    except BackendError:
        return _plain(503, "the store does not answer\n")
    return _plain(200, "ok\n")


def _plain(status: int, text: str) -> Response:
    headers = {"Content-Type": "text/plain; charset=utf-8"}
    return Response(
        status=status, body=text.encode(), headers=headers | ({"Retry-After": "2"} if status == 503 else {})
    )
