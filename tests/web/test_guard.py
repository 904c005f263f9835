"""No write from another origin, host or content type; cookies, headers, and how long wrong tokens are tried."""

import json

import pytest

from onward.web import Dashboard, Token
from onward.web.guard import LOOPBACK
from onward.web.routes import ROUTES
from tests.web.asking import PEOPLE, TOKENS, Client

WRITES = [route for route in ROUTES if route.method == "POST"]
JSON = {"content_type": "application/json"}


def cookie_of(response):
    return response.headers["Set-Cookie"].partition(";")[0]


def login(ask, who="anna", **headers):
    body = json.dumps({"token": TOKENS[who]}).encode()
    return ask.as_(None).send("POST", "api/v1/login", body, origin="http://shop.example", **JSON, **headers)


@pytest.mark.promise("S140")
@pytest.mark.parametrize("route", WRITES, ids=lambda route: route.path)
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://shop.example.evil.example"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site", "origin": "http://shop.example"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "none"},
    ],
    ids=str,
)
def test_a_write_that_another_site_causes_is_refused(ask, route, headers):
    path = route.path.format(queue="mail", id="0" * 32, name="morning")

    answer = ask.send("POST", path, b"{}", **JSON, **headers)

    assert (answer.status, json.loads(answer.body)["error"]) == (403, "wrong_origin")


@pytest.mark.promise("S140")
@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_write_that_a_form_could_send_is_refused(shop, ask, kind):
    answer = ask.send("POST", "api/v1/queues/mail/pause", b"{}", sec_fetch_site="same-origin", content_type=kind)

    assert answer.status == 415
    assert not shop.jobs.overview().queues[0].paused


@pytest.mark.promise("S140")
def test_a_write_without_an_origin_needs_a_token(shop, ask):
    cookie = cookie_of(login(ask))
    nobody = ask.as_(None)

    assert nobody.send("POST", "api/v1/queues/mail/pause", b"{}", cookie=cookie, **JSON).status == 403
    same = {"cookie": cookie, "sec_fetch_site": "same-origin"}
    assert nobody.send("POST", "api/v1/queues/mail/pause", b"{}", **JSON, **same).status == 200
    own = {"cookie": cookie, "origin": "http://shop.example"}
    assert nobody.send("POST", "api/v1/queues/mail/resume", b"{}", **JSON, **own).status == 200


@pytest.mark.promise("S140")
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8321", 200),
        ("127.0.0.1", 200),
        ("[::1]:8321", 200),
        ("evil.example", 403),
        ("", 403),
        ("127.0.0.1.evil", 403),
    ],
)
def test_a_host_that_is_not_allowed_gets_nothing(jobs, host, status):
    ask = Client(Dashboard(jobs, auth=Token(PEOPLE), allowed_hosts=LOOPBACK))

    for path in ("", "api/v1/session", "livez", "static/index.html"):
        assert ask.send("GET", path, host=host).status == status


@pytest.mark.promise("S141", "S151")
def test_every_answer_has_the_headers_that_keep_script_and_other_hosts_out(shop, ask):
    for path in ("", "api/v1/session", "static/index.html", "metrics", "api/v1/none", "static/none"):
        headers = ask.send("GET", path, accept="text/html").headers
        policy = headers["Content-Security-Policy"]

        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Opener-Policy"] == headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert ask.send("GET", "api/v1/jobs").headers["Cache-Control"] == "no-store"


def test_a_cookie_is_for_this_dashboard_and_no_script(ask):
    header = login(ask).headers["Set-Cookie"]

    assert "; Path=/; " in header
    assert "; HttpOnly; SameSite=Strict" in header
    assert "Secure" not in header
    assert TOKENS["anna"] not in header


def test_a_cookie_lasts_twelve_hours_and_belongs_to_its_token(jobs):
    now = [1_000_000.0]
    dashboard = Dashboard(jobs, auth=Token(PEOPLE, clock=lambda: now[0]))
    ask = Client(dashboard, who=None)
    cookie = cookie_of(login(ask))

    assert ask.send("GET", "api/v1/session", cookie=cookie).status == 200
    now[0] += 12 * 3600 - 1
    assert ask.send("GET", "api/v1/session", cookie=cookie).status == 200
    now[0] += 2
    assert ask.send("GET", "api/v1/session", cookie=cookie).status == 401


@pytest.mark.parametrize(
    "change",
    [lambda v: v[:-1] + "0", lambda v: v.replace(".", ".9", 1), lambda v: "x", lambda v: "..", lambda v: "é.1.2"],
)
def test_a_cookie_that_was_changed_is_nobodys(ask, change):
    name, _, value = cookie_of(login(ask)).partition("=")
    changed = change(value)
    if changed == value:
        changed = value[:-1] + "1"

    assert ask.as_(None).send("GET", "api/v1/session", cookie=f"{name}={changed}").status == 401


def test_to_sign_out_removes_the_cookie(ask):
    cookie = cookie_of(login(ask))

    header = (
        ask.as_(None)
        .send("POST", "api/v1/logout", b"{}", cookie=cookie, sec_fetch_site="same-origin", **JSON)
        .headers["Set-Cookie"]
    )

    assert header.startswith(f"{cookie.partition('=')[0]}=; ")
    assert "Max-Age=0" in header


def test_after_five_wrong_tokens_an_address_has_one_try_a_second():
    now = [0.0]
    token = Token("the-right-token-0123", clock=lambda: now[0])
    from onward.web.failures import Refused

    for _ in range(5):
        assert token.user_of("a-wrong-token-012345", "192.0.2.7") is None
    with pytest.raises(Refused, match="wait a second"):
        token.user_of("the-right-token-0123", "192.0.2.7")
    assert token.user_of("the-right-token-0123", "192.0.2.8") is not None
    now[0] += 1
    assert token.user_of("the-right-token-0123", "192.0.2.7") is not None


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "POST"])
def test_a_method_that_is_not_in_the_table_is_answered_with_those_that_are(ask, method):
    answer = ask.send(method, "api/v1/pulse", b"{}", **JSON)

    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    answer = ask.send("DELETE", "api/v1/jobs/1/retry", b"{}", **JSON)
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")
    assert ask.send(method, "anything", b"{}", **JSON).status == 405


def test_a_body_that_is_too_large_is_refused(jobs, dashboard):
    from io import BytesIO

    sent = []
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/api/v1/canary",
        "CONTENT_LENGTH": str(dashboard.body_limit + 1),
        "CONTENT_TYPE": "application/json",
        "HTTP_AUTHORIZATION": f"Bearer {TOKENS['anna']}",
        "wsgi.input": BytesIO(b" " * (dashboard.body_limit + 1)),
    }

    dashboard.wsgi(environ, lambda status, headers: sent.append(status))

    assert [status[:3] for status in sent] == ["413"]


@pytest.mark.parametrize("name", ["../dashboard.py", "..%2f", "a/b", ".hidden", "none.js", ""])
def test_nothing_but_the_files_of_the_page_is_served(ask, name):
    answer = ask.send("GET", f"static/{name}", accept="application/json")

    assert answer.status == 404
