"""One scenario in seven hosts, under a prefix and behind a proxy that strips it: ASGI, WSGI and Django."""

import asyncio
import json
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest
import uvicorn

from onward.operate import bulk
from onward.web import Dashboard, DjangoStaff, Token
from tests.web.asking import PEOPLE, TOKENS, fill
from tests.web.leaving import Held, noting

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")


class QuietHandler(WSGIRequestHandler):
    def log_message(self, *_):
        pass


class ThreadedServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True


@contextmanager
def served_by_uvicorn(app, **options):
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", **options))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        threading.Event().wait(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def served_by_wsgiref(app):
    server = make_server("127.0.0.1", 0, app, ThreadedServer, QuietHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def in_starlette(dashboard):
    from starlette.applications import Starlette
    from starlette.routing import Mount

    return served_by_uvicorn(Starlette(routes=[Mount("/admin/jobs", dashboard.asgi)]))


def in_fastapi(dashboard):
    from fastapi import FastAPI

    app = FastAPI()
    app.mount("/admin/jobs", dashboard.asgi)
    return served_by_uvicorn(app)


def in_litestar(dashboard):
    from litestar import Litestar, asgi

    return served_by_uvicorn(
        Litestar([asgi("/admin/jobs", is_mount=True, copy_scope=True)(dashboard.asgi)], openapi_config=None)
    )


def in_flask(dashboard):
    from flask import Flask
    from werkzeug.middleware.dispatcher import DispatcherMiddleware

    app = Flask("shop")
    app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/admin/jobs": dashboard.wsgi})
    return served_by_wsgiref(app)


def in_django(dashboard, *, is_async):
    import django
    from django.conf import settings
    from django.core.asgi import get_asgi_application
    from django.core.wsgi import get_wsgi_application
    from django.urls import clear_url_caches, include, path, set_urlconf

    if not settings.configured:
        settings.configure(DEBUG=False, ALLOWED_HOSTS=["*"], SECRET_KEY="0" * 50, USE_TZ=True, MIDDLEWARE=[])
        django.setup()
    urls = type("urls", (), {"urlpatterns": [path("admin/jobs/", include(dashboard.django()))]})
    settings.ROOT_URLCONF = urls
    settings.ALLOWED_HOSTS = ["*"]
    clear_url_caches()
    set_urlconf(urls)
    if is_async:
        return served_by_uvicorn(get_asgi_application(), lifespan="off")
    return served_by_wsgiref(get_wsgi_application())


HOSTS = {
    "bare": lambda dashboard: served_by_uvicorn(dashboard.asgi),
    "proxy": lambda dashboard: served_by_uvicorn(dashboard.asgi, root_path="/admin/jobs"),
    "starlette": in_starlette,
    "fastapi": in_fastapi,
    "litestar": in_litestar,
    "flask": in_flask,
    "django-wsgi": lambda dashboard: in_django(dashboard, is_async=False),
    "django-asgi": lambda dashboard: in_django(dashboard, is_async=True),
}


class Browser:
    """Asks as a page does: with a cookie, and from its own origin."""

    def __init__(self, base):
        self.base = base
        self.cookie = ""

    def ask(self, method, path, body=None, **headers):
        sent = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin", "Cookie": self.cookie, **headers}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.base}/{path}", data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                self.cookie = (answer.headers.get("Set-Cookie") or self.cookie).partition(";")[0]
                return answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(), error.headers


@pytest.mark.promise("S143")
@pytest.mark.parametrize("host", HOSTS)
def test_the_same_happens_in_every_host(jobs, host):
    shop = fill(jobs)
    dashboard = Dashboard(jobs, auth=Token(PEOPLE))
    mount = "" if host == "bare" else "/admin/jobs"
    with HOSTS[host](dashboard) as server:
        browser = Browser(server if host == "proxy" else server + mount)
        status, page, headers = browser.ask("GET", "jobs/some-job", Accept="text/html")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert f'<base href="{mount}/">'.encode() in page
        assert browser.ask("GET", "static/index.html")[0] == 200
        assert browser.ask("GET", "api/v1/pulse")[0] == 401

        status, _, headers = browser.ask("POST", "api/v1/login", {"token": TOKENS["anna"]})
        assert status == 200
        assert f"Path={mount}/;" in headers["Set-Cookie"]
        status, body, headers = browser.ask("GET", "api/v1/pulse")
        assert (status, {queue["name"] for queue in json.loads(body)["queues"]}) == (200, {"mail", "reports"})
        assert browser.ask("GET", "api/v1/pulse/", **{"If-None-Match": headers["ETag"]})[0] in (200, 304)
        assert len(json.loads(browser.ask("GET", "api/v1/jobs?filter=state%3Adead%20queue%3Amail")[1])["jobs"]) == 3
        assert browser.ask("DELETE", "api/v1/pulse")[2]["Allow"] == "GET, HEAD"
        assert browser.ask("HEAD", "api/v1/session")[:2] == (200, b"")
        assert browser.ask("POST", "api/v1/logout", {}, **{"Sec-Fetch-Site": "cross-site"})[0] == 403

        seen = json.loads(browser.ask("POST", "api/v1/bulk/preview", {"act": "replay", "filter": "state:dead"})[1])
        status, lines, headers = browser.ask("POST", "api/v1/bulk/run", {"ticket": seen["ticket"]})
        assert (status, headers["Content-Type"]) == (200, "application/x-ndjson")
        assert json.loads(lines.splitlines()[-1])["done"] == 3
        assert jobs.get(shop.dead[0]).state == "available"
        browser.ask("POST", "api/v1/logout", {})
        assert browser.ask("GET", "api/v1/pulse")[0] == 401


@pytest.mark.promise("S145")
@pytest.mark.parametrize("host", ["bare", "flask", "django-asgi"])
def test_a_connection_that_is_cut_stops_the_act_after_the_batch(jobs, host, monkeypatch):
    monkeypatch.setattr(bulk, "LOOKED_FOR", 60.0)  # a preview counts all of them, however busy the machine is
    fill(jobs)
    jobs.enqueue_many("send", ({"user_id": number} for number in range(5_000)), queue="mail")
    dashboard = Dashboard(jobs, auth=Token(PEOPLE))
    left, held, served = threading.Event(), Held(monkeypatch, at=2), served_by_uvicorn
    monkeypatch.setitem(globals(), "served_by_uvicorn", lambda app, **more: served(noting(app, left), **more))
    with HOSTS[host](dashboard) as server:
        browser = Browser(server + ("" if host == "bare" else "/admin/jobs"))
        browser.ask("POST", "api/v1/login", {"token": TOKENS["anna"]})
        seen = json.loads(
            browser.ask("POST", "api/v1/bulk/preview", {"act": "cancel", "filter": "queue:mail state:due"})[1]
        )
        request = urllib.request.Request(
            f"{browser.base}/api/v1/bulk/run",
            json.dumps({"ticket": seen["ticket"]}).encode(),
            {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin", "Cookie": browser.cookie},
        )
        answer = urllib.request.urlopen(request, timeout=30)
        assert json.loads(answer.readline())["done"] == 500
        assert held.reached.wait(60)
        answer.close()
        if host != "flask":  # a WSGI server notices when it writes
            assert left.wait(60)
        held.go_on.set()
        assert held.ended.wait(60)
    assert seen["count"] == 5_001
    assert held.batches == 2 if host == "bare" else held.batches <= 4
    assert jobs.counts("mail")["cancelled"] == 500 * held.batches


def test_the_staff_of_a_django_project_is_let_in():
    from types import SimpleNamespace

    from onward.web import WebRequest

    def user(**more):
        person = SimpleNamespace(is_active=True, is_staff=True, is_superuser=False, get_username=lambda: "ann", **more)
        return WebRequest(method="GET", mount="", path="", native=SimpleNamespace(user=person))

    request = user()
    assert DjangoStaff()(request).role == "operator"
    request.native.user.is_superuser = True
    assert DjangoStaff()(request).role == "admin"
    request.native.user.is_staff = False
    assert DjangoStaff()(request) is None
    assert DjangoStaff()(WebRequest(method="GET", mount="", path="")) is None


def test_lifespan_is_answered_and_a_websocket_closed(dashboard):
    async def talk(scope, messages):
        sent, waiting = [], iter(messages)

        async def receive():
            return next(waiting)

        async def send(message):
            sent.append(message["type"])

        await dashboard.asgi({"type": scope}, receive, send)
        return sent

    lifespan = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    assert asyncio.run(talk("lifespan", lifespan)) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert asyncio.run(talk("websocket", [])) == ["websocket.close"]
