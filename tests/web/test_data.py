"""What leaves the server: no secret, and whatever a job holds as text."""

import json
import platform
from datetime import timedelta

import pytest

from onward import Onward, Secret
from onward.backend import Claim, Session, Turn
from onward.web import Dashboard, Token
from tests.web.asking import CANARY, PEOPLE, Client, every_get, fill

SCRIPT = "</script><img src=x onerror=alert(1)>\"'&\u202e\x00\x1b[2J{{7*7}}javascript:alert(1)"


@pytest.mark.promise("S142")
def test_no_route_tells_a_secret(any_store):
    with Onward(any_store) as jobs:
        shop = fill(jobs)

        @jobs.job(queue="mail", max_retries=0)
        def leak(password: Secret[str], token: str = "") -> None:
            raise ValueError(f"password={password.reveal()} at https://ann:{CANARY}@db/")

        @jobs.job(queue="mail")
        def tell() -> dict[str, str]:
            return {"password": CANARY}

        leak.enqueue(Secret(CANARY), token=CANARY)
        told = tell.enqueue()
        jobs.drain("mail")
        ask = Client(Dashboard(jobs, auth=Token(PEOPLE)))
        jobs.pause("mail", by="anna", reason=f"https://ann:{CANARY}@db/")
        answers = [ask.send("GET", f"api/v1/{path}") for path in [*every_get(shop), f"jobs/{told.id}"]]
        answers += [ask.send("GET", path) for path in ("metrics", "", "livez", "readyz")]
        found = ask.get("jobs", filter=CANARY)
        by_argument = ask.get("jobs", filter=f"arg.password:{CANARY}")
        preview = ask.post("bulk/preview", {"act": "replay", "filter": "state:dead"})
        edited = ask.post(
            f"jobs/{shop.dead[0]}/edit",
            {"set": {"api_key": json.dumps(f"{CANARY}-2"), "user_id": "9"}, "dry_run": True},
        )

        assert {answer.status for answer in answers} == {200}
        assert not [answer.body for answer in answers if CANARY.encode() in answer.body]
        assert found["jobs"] == by_argument["jobs"] == []
        assert CANARY not in json.dumps([preview, edited])
        assert {change["name"] for change in edited["changes"]} == {"api_key", "user_id"}


@pytest.mark.promise("S142")
def test_what_this_process_does_not_define_is_not_shown(url, jobs, shop):
    with Onward(url) as stranger:
        ask = Client(Dashboard(stranger, auth=Token(PEOPLE)))
        answer = ask.get(f"jobs/{shop.dead[0]}")
        hidden = ask.get("jobs", filter="arg.user_id:-1")

        assert (answer["arguments"], answer["editable"]) == ("", [])
        assert "cannot know which arguments are secret" in answer["arguments_note"]
        assert CANARY not in json.dumps(answer)
        assert "not compared" in hidden["text"] or hidden["jobs"] == []


@pytest.mark.promise("S142")
def test_there_is_no_way_to_reveal(ask):
    paths = ask.get("openapi.json")["paths"]

    assert not [path for path in paths if "reveal" in path]


@pytest.mark.promise("S141")
def test_what_a_job_holds_stays_text(jobs):
    @jobs.job(queue="mail", max_retries=0)
    def send(note: str) -> None:
        raise ValueError(note)

    job_id = send.using(meta={"title": SCRIPT}).enqueue(SCRIPT).id
    jobs.drain("mail")
    jobs.pause("mail", by="anna", reason="<b>deploy</b>")
    ask = Client(Dashboard(jobs, auth=Token(PEOPLE), title="<script>"))
    group = ask.get("groups")["groups"][0]["fingerprint"]
    for path in ("jobs", f"jobs/{job_id}", "groups", f"groups/{group}", "queues", "audit", "pulse", "session"):
        answer = ask.send("GET", f"api/v1/{path}")

        assert answer.headers["Content-Type"] == "application/json"
        json.loads(answer.body)
    page = ask.send("GET", "jobs/%3Cscript%3E", accept="text/html")
    assert b"<script>alert" not in page.body
    answer = ask.get(f"jobs/{job_id}")
    assert json.loads(answer["arguments"]) == {"note": SCRIPT}
    assert SCRIPT.splitlines()[0].split("\x00")[0] in answer["runs"][0]["message"]


@pytest.mark.promise("S141")
def test_a_mount_that_is_markup_is_escaped(dashboard):
    from onward.web import WebRequest

    page = dashboard.respond(
        WebRequest(method="GET", mount='/"><script>', path="", headers={"accept": "text/html"})
    ).body

    assert b'"><script>' not in page
    assert b'<base href="/&quot;&gt;&lt;script&gt;/">' in page


def test_large_integers_stay_exact(jobs, ask):
    @jobs.job(queue="mail", max_retries=0)
    def count(number: int) -> int:
        return number

    job_id = count.enqueue(2**62 + 1).id
    jobs.drain("mail")
    answer = ask.get(f"jobs/{job_id}")

    assert json.loads(answer["arguments"])["number"] == json.loads(answer["result"]) == 2**62 + 1
    assert isinstance(answer["result"], str)


@pytest.mark.parametrize("host", [platform.node(), "host-7"])
def test_a_stack_is_offered_on_the_machine_that_has_it(jobs, ask, host):
    job_id = jobs.enqueue("count", queue="stock").id
    jobs.backend.open_session(Session(owner="one", lease_for=timedelta(hours=1), host=host, pid=4242, version="0"))
    jobs.backend.turn(Turn(owner="one", claim=Claim(queues=("stock",), limit=1)))

    (stack,) = [act for act in ask.get(f"jobs/{job_id}")["acts"] if act["act"] == "stack"]

    there = f"it runs on host-7: there, `onward job stack {job_id}` shows it"
    assert (stack["possible"], stack["reason"]) == ((False, there) if host == "host-7" else (True, ""))
