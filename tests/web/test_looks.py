"""Looking is bounded, however many watch; and what a page says when the store is away."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from onward import Onward
from onward.backend import Session
from onward.contract.description import WorkerDescription
from onward.errors import BackendUnavailable
from onward.operate.watching import StoreWatch
from onward.testing import FakeClock
from onward.web import Dashboard, Token
from onward.web.pictures import Pictures
from tests.waiting import eventually
from tests.web.asking import PEOPLE, Client


@pytest.fixture
def looks(monkeypatch):
    """The looks that were made at any store."""
    made, look = [], StoreWatch.look

    def counted(self):
        made.append(threading.get_ident())
        return look(self)

    monkeypatch.setattr(StoreWatch, "look", counted)
    return made


@pytest.mark.promise("S146")
def test_fifty_who_watch_cost_one_look(jobs, shop, looks):
    ask = Client(Dashboard(jobs, auth=Token(PEOPLE), refresh=60))
    assert looks == []

    with ThreadPoolExecutor(50) as people:
        answers = list(people.map(lambda _: ask.get("pulse"), range(200)))

    assert len(looks) == 1
    assert {answer["at"] for answer in answers} == {answers[0]["at"]}


@pytest.mark.promise("S146")
def test_a_look_is_made_again_when_it_is_too_old(jobs, looks):
    now = [0.0]
    pictures = Pictures(jobs, 2.0, lambda: now[0])

    first = pictures.picture()
    now[0] += 1.9
    assert pictures.picture() == first
    assert len(looks) == 1
    now[0] += 60
    assert pictures.picture().tag != first.tag
    assert len(looks) == 2


@pytest.mark.promise("S146")
def test_a_page_that_has_the_picture_gets_nothing(jobs, shop, looks):
    ask = Client(Dashboard(jobs, auth=Token(PEOPLE), refresh=60))
    first = ask.send("GET", "api/v1/pulse")
    again = ask.send("GET", "api/v1/pulse", if_none_match=first.headers["ETag"])
    mia = ask.as_("mia").send("GET", "api/v1/pulse", if_none_match=first.headers["ETag"])

    assert (again.status, again.body) == (304, b"")
    assert mia.status == 200
    assert len(looks) == 1


@pytest.mark.promise("S146")
def test_fifty_on_the_page_of_checks_have_the_store_checked_once(jobs, shop, monkeypatch):
    checked, health = [], type(jobs.backend).health
    monkeypatch.setattr(type(jobs.backend), "health", lambda self: checked.append(1) or health(self))
    ask = Client(Dashboard(jobs, auth=Token(PEOPLE), refresh=60))

    with ThreadPoolExecutor(50) as people:
        answers = list(people.map(lambda _: ask.get("health"), range(100)))

    assert len(checked) == 1
    assert {"schema", "integrity", "served"} <= {check["name"] for check in answers[-1]["checks"]}


def test_what_needs_a_person_is_what_the_page_of_checks_says(jobs, shop, ask):
    """The store of this test is not safe from a power cut: a check of its own, which the fleet knows nothing of."""
    needs = ask.get("pulse")["needs_you"]

    assert "durability" in {check["name"] for check in needs}
    assert needs == [check for check in ask.get("health")["checks"] if check["status"] != "ok"]


def test_a_store_that_refuses_its_own_checks_is_shown_all_the_same(jobs, shop, ask, monkeypatch):
    def refused(self):
        raise BackendUnavailable("permission denied for view pg_stat_activity")

    monkeypatch.setattr(type(jobs.backend), "health", refused)
    pulse = ask.get("pulse")
    (server,) = [check for check in pulse["needs_you"] if check["name"] == "server"]

    assert "permission denied" in server["detail"]
    assert pulse["queues"]


def test_checks_that_were_not_made_are_no_checks_that_pass(jobs, shop, monkeypatch):
    def slow(**_):
        raise BackendUnavailable("the look took too long")

    monkeypatch.setattr(jobs, "health", slow)
    ask = Client(Dashboard(jobs, auth=Token(PEOPLE), refresh=0.1))
    ask.get("health", status=503)
    eventually(lambda: ask.send("GET", "api/v1/health").status == 200)
    (check,) = ask.get("health")["checks"]

    assert (check["status"], check["fix"]) == ("warn", "onward health")
    assert ask.get("pulse")["checked"] is False


def test_the_page_of_checks_says_when_they_were_made(jobs, shop):
    ask = Client(Dashboard(jobs, auth=Token(PEOPLE), refresh=60))

    assert ask.get("health")["at"] == ask.get("pulse")["at"] == ask.get("health")["at"]


def test_a_worker_without_keys_is_told_from_those_that_have_some(jobs, ask):
    for owner, keys in (("one", ("2026-a",)), ("two", ())):
        told = WorkerDescription(queues=("mail",), keys=keys).encoded()
        jobs.backend.open_session(Session(owner=owner, lease_for=timedelta(hours=1), description=told))

    facts = {fact["label"]: (fact["text"], fact["ok"]) for fact in ask.get("health")["versions"]}

    assert facts["workers' keys"] == ("2026-a; none", False)


def test_the_page_of_checks_tells_builds_and_keys_of_all_workers(jobs, ask):
    for owner, keys in (("one", ("2026-a",)), ("two", ("2026-a", "2026-b"))):
        told = WorkerDescription(queues=("mail",), build="7", keys=keys).encoded()
        jobs.backend.open_session(Session(owner=owner, lease_for=timedelta(hours=1), description=told))

    facts = {fact["label"]: (fact["text"], fact["ok"]) for fact in ask.get("health")["versions"]}

    assert facts["workers' build"] == ("7", True)
    assert facts["workers' keys"] == ("2026-a; 2026-a, 2026-b", False)


def test_a_check_that_an_act_has_answered_needs_nobody_any_more(jobs, shop, monkeypatch):
    ask = Client(Dashboard(jobs, auth=Token(PEOPLE), refresh=60))
    assert "dying" in {check["name"] for check in ask.get("pulse")["needs_you"]}

    seen = ask.post("bulk/preview", {"act": "purge", "filter": "state:dead"})
    ask.post("bulk/run", {"ticket": seen["ticket"]})

    assert "dying" not in {check["name"] for check in ask.get("pulse")["needs_you"]}


def test_who_sees_some_queues_is_told_of_those_among_all_that_no_worker_serves(jobs, ask):
    mia = ask.as_("mia")
    assert [check["name"] for check in mia.get("health")["checks"]] == ["served", "late", "paused"]
    for queue in ("mail", "payroll"):
        jobs.enqueue("send", queue=queue)
    ask = Client(Dashboard(jobs, auth=Token(PEOPLE), refresh=60))
    mia = ask.as_("mia")

    (check,) = mia.get("pulse")["needs_you"]

    assert (check["name"], check["about"]) == ("served", ["mail"])
    assert check["detail"] == "no live worker serves mail"
    assert check["fix"] == "onward worker MODULE:ATTRIBUTE --queues mail"
    assert "payroll" not in json.dumps([mia.get("pulse"), mia.get("health")])
    assert ask.get("pulse")["needs_you"][0]["about"] == ["mail", "payroll"]


def test_a_count_that_stopped_at_its_limit_says_that_there_may_be_more(jobs, ask):
    @jobs.job(queue="mail")
    def send(number: int) -> None: ...

    jobs.enqueue_many("send", ({"number": number} for number in range(10_001)), queue="mail")
    pulse, tabs = ask.get("pulse"), ask.get("jobs", limit=1)["tabs"]
    mia = ask.as_("mia").get("pulse")
    cut = {"count": 10_000, "or_more": True}

    assert pulse["queues"][0]["due"] == cut
    assert {"state": "available", **cut} in pulse["counts"]
    assert {"state": "available", **cut} in mia["counts"]
    assert {"state": "available", **cut} in tabs
    assert {"state": "scheduled", "count": 0, "or_more": False} in tabs


def test_a_queue_whose_jobs_have_come_due_unclaimed_has_one_that_is_due(url, jobs, ask):
    with Onward(url, clock=FakeClock(datetime.now(UTC) - timedelta(hours=1))) as before:
        before.enqueue("send", queue="mail", delay="30m")

    (mail,) = ask.get("queues")["queues"]

    assert mail["oldest_due"] is not None
    assert (mail["due"], mail["scheduled"]) == ({"count": 1, "or_more": True}, {"count": 1, "or_more": False})


def test_an_act_is_seen_at_once(jobs, shop, looks):
    ask = Client(Dashboard(jobs, auth=Token(PEOPLE), refresh=60))
    ask.get("pulse")
    ask.post("queues/mail/pause", {"reason": "deploy"})

    (mail,) = [queue for queue in ask.get("queues")["queues"] if queue["name"] == "mail"]

    assert (mail["paused"], mail["paused_by"]) == (True, "anna: deploy")
    assert ask.get("pulse")["audit"][0]["text"] == "pause mail: deploy"


def test_a_store_that_is_away_is_told_with_the_age_of_the_last_picture(jobs, shop, monkeypatch):
    ask = Client(Dashboard(jobs, auth=Token(PEOPLE), refresh=0.1))
    ask.get("pulse")
    asked = []

    def away(self):
        asked.append(1)
        raise BackendUnavailable("the store at postgresql://ann:hunter2@db/ does not answer")

    monkeypatch.setattr(StoreWatch, "look", away)
    ask.dashboard._parts.pictures.forget()
    monkeypatch.setattr(StoreWatch, "pause", lambda self, interval: 60.0)
    answers = [ask.send("GET", "api/v1/pulse") for _ in range(5)]

    told = json.loads(answers[-1].body)
    assert {answer.status for answer in answers} == {503}
    assert answers[0].headers["Retry-After"] == "2"
    assert 0 <= told["age"] < 60
    assert "hunter2" not in told["message"]
    assert len(asked) == 1
    assert ask.send("GET", "readyz").status == 503
    assert ask.send("GET", "livez").status == 200


@pytest.mark.promise("S144")
@pytest.mark.parametrize("text", ["", "state:due", "queue:mail", "state:due queue:mail since:1h"])
def test_a_page_of_many_reads_what_a_page_of_few_does(jobs, ask, text, monkeypatch):
    @jobs.job(queue="mail")
    def send(number: int) -> None: ...

    monkeypatch.setattr(StoreWatch, "pause", lambda self, interval: 60.0)
    ask.get("pulse")  # the look that all pages share is not what is counted here
    read = []
    monkeypatch.setattr(type(jobs.backend), "list", counted_list(type(jobs.backend).list, read))
    sizes = []
    for more in (100, 3_000):
        jobs.enqueue_many("send", ({"number": number} for number in range(more)), queue="mail")
        read.clear()
        page = ask.get("jobs", filter=text, limit=50)
        beyond = ask.get("jobs", filter=text, limit=50, after=page["next"])
        sizes.append(list(read))

        assert len(page["jobs"]) == len(beyond["jobs"]) == 50
        assert page["jobs"][-1]["id"] > beyond["jobs"][0]["id"]
    assert sizes[0] == sizes[1]
    again = ask.as_("vera").get("jobs", filter=text, limit=50, after=page["next"])
    assert again["jobs"] == beyond["jobs"]


def counted_list(method, read):
    def counted(self, query):
        found = method(self, query)
        if not query.states or "executing" not in query.states:
            read.append(len(found))
        return found

    return counted
