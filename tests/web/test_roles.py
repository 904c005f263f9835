"""Nobody does what their role, or their queues, do not allow: the whole route table, asked by everybody."""

import json

import pytest

from onward import Onward
from onward.errors import OptionError
from onward.web import Dashboard, ProxyHeader, Token, User
from onward.web.routes import API, ROLES, ROUTES
from tests.web.asking import PEOPLE, Client, every_get, fill

NEEDING_A_ROLE = [route for route in ROUTES if route.role is not None]
FILLED = {"queue": "mail", "id": "0" * 32, "name": "morning", "fingerprint": "0" * 12}


def path_of(route):
    return route.path.format(**FILLED)


def sent(ask, route, **headers):
    return ask.send(route.method, path_of(route), b"{}", content_type="application/json", **headers)


@pytest.mark.promise("S138")
@pytest.mark.parametrize("auth", [None, "a token", 1])
def test_a_dashboard_without_auth_does_not_start(jobs, auth):
    with pytest.raises(OptionError, match=r"needs auth.*Token\(\).*ProxyHeader.*function of your own"):
        Dashboard(jobs, auth=auth)


@pytest.mark.promise("S138")
@pytest.mark.parametrize("token", ["", "short", "with\nnewline-0123456789", "ünicode-0123456789"])
def test_a_token_that_is_no_secret_is_refused(token, monkeypatch):
    monkeypatch.setenv("ONWARD_WEB_TOKEN", token.replace("\n", "") if not token else "")
    with pytest.raises(OptionError, match="makes one"):
        Token(token)


def test_the_token_of_the_environment_is_taken(monkeypatch):
    monkeypatch.setenv("ONWARD_WEB_TOKEN", "0123456789abcdef")

    assert Token().user_of("0123456789abcdef", "").role == "admin"


@pytest.mark.promise("S139")
@pytest.mark.parametrize("route", NEEDING_A_ROLE, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_asks_for_its_role(shop, ask, route):
    assert sent(ask.as_(None), route).status == 401
    for who in ("vera", "olaf", "anna"):
        role = next(user.role for user in PEOPLE.values() if user.name == who)
        answer = sent(ask.as_(who), route)
        is_allowed = ROLES.index(role) >= ROLES.index(route.role)

        assert (answer.status == 403) is not is_allowed, answer.body
        assert answer.status != 401


@pytest.mark.promise("S139")
def test_a_person_of_one_queue_sees_and_changes_no_other(shop, ask):
    mia = ask.as_("mia")
    others = [shop.done, shop.failing, shop.cancelled]

    assert {job["queue"] for job in mia.get("jobs")["jobs"]} == {"mail"}
    assert {queue["name"] for queue in mia.get("pulse")["queues"]} <= {"mail"}
    assert {queue["name"] for queue in mia.get("queues")["queues"]} == {"mail"}
    gone = {mia.get(f"jobs/{'0' * 32}{end}", status=404)["fix"] for end in ("", "/why")}
    for job_id in others:
        # As if it were not there: why it is not is told to those only who see all queues.
        assert {mia.get(f"jobs/{job_id}{end}", status=404)["fix"] for end in ("", "/why")} == gone
        for act in ("retry", "cancel", "replay"):
            mia.post(f"jobs/{job_id}/{act}", status=404)
    for act in ("pause", "resume"):
        mia.post(f"queues/reports/{act}", status=404)
    mia.get("queues/reports", status=404)
    mia.get("series", status=404, queue="reports")
    mia.get("groups", status=404, queue="reports")
    mia.post("schedules/morning/run", status=404)
    assert mia.get("schedules")["schedules"] == []
    assert [limit for limit in mia.get("limits")["limits"] if limit["kind"] != "queue"] == []
    mia.post("limits/set", {"kind": "queue", "name": "reports", "running": 1}, status=404)
    mia.post("limits/set", {"kind": "job", "name": "report", "running": 1}, status=403)
    assert mia.post("bulk/preview", {"act": "cancel", "filter": "queue:reports"})["count"] == 0
    for path in ("flows", f"flows/{shop.flow}", "audit"):
        mia.get(path, status=403)


@pytest.mark.promise("S139")
def test_a_bulk_act_of_a_person_of_one_queue_stays_in_it(shop, ask):
    mia = ask.as_("mia")
    seen = mia.post("bulk/preview", {"act": "cancel", "filter": "state:due,later,retry"})

    lines = mia.post("bulk/run", {"ticket": seen["ticket"]})

    assert lines[-1]["done"] == seen["count"] == 2
    assert {shop.jobs.get(job_id).state for job_id in (shop.later, shop.due)} == {"cancelled"}
    assert shop.jobs.get(shop.failing).state == "retryable"


@pytest.mark.promise("S139")
def test_what_a_read_only_dashboard_is_asked_to_change_stays_as_it_is(jobs):
    shop = fill(jobs)
    ask = Client(Dashboard(jobs, auth=Token(PEOPLE), read_only=True))

    for route in NEEDING_A_ROLE:
        answer = sent(ask, route)
        assert (answer.status == 403) is (route.method == "POST"), route.path
    assert shop.jobs.get(shop.dead[0]).state == "discarded"
    assert ask.get("session")["acts"] == []


@pytest.mark.promise("S139")
def test_only_an_admin_purges(shop, ask):
    body = {"act": "purge", "filter": "state:dead"}

    ask.as_("olaf").post("bulk/preview", body, status=403)
    ticket = ask.post("bulk/preview", body)["ticket"]

    assert ask.post("bulk/run", {"ticket": ticket})[-1]["done"] == 3


def test_a_proxy_is_believed_only_from_its_network(jobs):
    auth = ProxyHeader("X-Forwarded-User", trusted=["192.0.2.0/24"], operators={"olaf"}, queues={"mia": ["mail"]})
    ask = Client(Dashboard(jobs, auth=auth), who=None)

    def named(name, peer="192.0.2.7"):
        ask.dashboard.respond  # noqa: B018
        from onward.web import WebRequest

        request = WebRequest(
            method="GET", mount="", path=f"{API}session", headers={"x-forwarded-user": name}, peer=peer
        )
        answer = ask.dashboard.respond(request)
        return answer.status, json.loads(answer.body)

    assert named("olaf")[1]["role"] == "operator"
    assert named("vera")[1]["role"] == "viewer"
    assert named("mia")[1]["queues"] == ["mail"]
    assert named("olaf", peer="198.51.100.1")[0] == 401
    assert named("olaf", peer="")[0] == 401
    assert named("")[0] == 401
    assert named("::ffff:192.0.2.9", peer="::ffff:192.0.2.9")[0] == 200


@pytest.mark.parametrize("trusted", [(), "10.0.0.0/8", ["everybody"]])
def test_a_proxy_needs_networks(trusted):
    with pytest.raises(OptionError, match="trusted"):
        ProxyHeader("X-Forwarded-User", trusted=trusted)


@pytest.mark.parametrize("given", [{"name": ""}, {"name": "a\nb"}, {"name": "ann", "role": "root"}])
def test_a_user_that_cannot_be_is_refused(given):
    with pytest.raises(OptionError):
        User(**given)


@pytest.mark.promise("S139")
def test_every_kind_of_store_keeps_people_to_their_queues(any_store):
    with Onward(any_store) as jobs:
        shop = fill(jobs)
        ask = Client(Dashboard(jobs, auth=Token(PEOPLE)))
        for path in every_get(shop):
            ask.get(path)
        mia = ask.as_("mia")

        assert {job["queue"] for job in mia.get("jobs")["jobs"]} == {"mail"}
        mia.get(f"jobs/{shop.done}", status=404)
        assert mia.post(f"jobs/{shop.dead[0]}/replay")["done"]
        assert jobs.get(shop.dead[0]).state == "available"
        assert [entry.who for entry in jobs.audit(job=shop.dead[0])] == ["mia"]
