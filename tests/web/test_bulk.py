"""A bulk act does what was previewed, no more; and stopping it stops it."""

import json

import pytest

from onward import Onward
from onward.web import Dashboard, Token
from onward.web.tickets import LASTS, Tickets
from tests.web.asking import PEOPLE, Client, fill


def preview(ask, act="replay", text="state:dead"):
    return ask.post("bulk/preview", {"act": act, "filter": text})


@pytest.mark.promise("S145")
def test_what_was_shown_is_what_is_done(any_store):
    with Onward(any_store) as jobs:
        shop = fill(jobs)
        ask = Client(Dashboard(jobs, auth=Token(PEOPLE)))
        seen = preview(ask)
        arrived = shop.send.enqueue(-4).id
        jobs.drain("mail")

        lines = ask.post("bulk/run", {"ticket": seen["ticket"], "reason": "mended"})

        assert (seen["count"], seen["exact"], seen["destructive"]) == (3, True, False)
        assert {sample["id"] for sample in seen["samples"]} == set(shop.dead)
        assert lines[-1] == {
            **lines[-1], "done": 3, "skipped": 0, "over": True, "error": None, "text": "3 jobs replayed"
        }  # fmt: skip
        assert {jobs.get(job_id).state for job_id in shop.dead} == {"available"}
        assert jobs.get(arrived).state == "discarded"
        assert jobs.audit(job=shop.dead[0])[0].who == "anna"


@pytest.mark.promise("S145")
def test_a_ticket_is_for_who_saw_it_for_five_minutes_and_as_it_was(jobs, shop):
    now = [1_000_000.0]
    tickets = Tickets(b"key", lambda: now[0])
    dashboard = Dashboard(jobs, auth=Token(PEOPLE))
    object.__setattr__(dashboard._parts, "tickets", tickets)
    ask = Client(dashboard)
    ticket = preview(ask)["ticket"]

    assert ask.as_("olaf").post("bulk/run", {"ticket": ticket}, status=403)["error"] == "bad_ticket"
    for changed in (ticket[:-4] + "AAA=", ("B" if ticket[0] == "A" else "A") + ticket[1:], "", "é", ticket + "x"):
        assert ask.post("bulk/run", {"ticket": changed}, status=403)["error"] == "bad_ticket"
    ask.post("bulk/run", {"ticket": ticket, "filter": "state:completed"}, status=400)
    now[0] += LASTS
    assert ask.post("bulk/run", {"ticket": ticket}, status=409)["error"] == "ticket_expired"
    assert {jobs.get(job_id).state for job_id in shop.dead} == {"discarded"}


@pytest.mark.promise("S145")
def test_a_stream_that_is_closed_stops_after_the_batch(jobs, ask):
    send = fill(jobs).send
    jobs.enqueue_many("send", ({"user_id": number} for number in range(1_200)), queue="mail")
    assert send.name == "send"
    seen = preview(ask, "cancel", "queue:mail state:due")
    body = json.dumps({"ticket": seen["ticket"]}).encode()

    response = ask.send("POST", "api/v1/bulk/run", body, content_type="application/json")
    first = json.loads(next(iter(response.body)))
    response.close()

    assert seen["count"] == 1_201
    assert first["done"] == 500
    assert list(response.body) == []
    assert jobs.counts("mail")["cancelled"] == 500


@pytest.mark.promise("S145")
def test_what_cannot_be_meant_is_refused_before_anything_is_done(shop, ask):
    assert ask.post("bulk/preview", {"act": "replay", "filter": ""}, status=400)["message"].startswith(
        "an empty filter"
    )
    assert ask.post("bulk/preview", {"act": "melt", "filter": "state:dead"}, status=400)["field"] == "act"
    assert (
        ask.post("bulk/preview", {"act": "replay", "filter": "state:completed"}, status=400)["error"] == "bad_request"
    )
    assert preview(ask, "replay", "state:dead queue:none")["ticket"] is None


def test_jobs_that_are_chosen_one_by_one_are_named_by_their_ids(shop, ask):
    chosen = ",".join(shop.dead[:2])

    seen = preview(ask, "replay", f"id:{chosen}")
    lines = ask.post("bulk/run", {"ticket": seen["ticket"]})

    assert (seen["count"], lines[-1]["done"]) == (2, 2)
    assert shop.jobs.get(shop.dead[2]).state == "discarded"


def test_a_canary_stops_at_the_first_that_fails_again(jobs, shop, ask):
    with jobs.worker(queues=["mail"], concurrency=1):
        lines = ask.post("canary", {"filter": "state:dead", "patience": "20s"})

    assert lines[0]["happened"] == "replayed"
    assert (lines[-1]["happened"], lines[-1]["over"], lines[-1]["stopped"]) == ("failed", True, True)
    assert "failed again: ValueError" in lines[-1]["text"]
    states = [jobs.get(job_id).delivery for job_id in shop.dead]
    assert sorted(states) == [1, 1, 2]


def test_a_canary_whose_steps_cannot_be_is_refused(shop, ask):
    assert "steps" in ask.post("canary", {"filter": "state:dead", "steps": [0]}, status=400)["message"]
    ask.post("canary", {"filter": "state:dead", "steps": ["some"]}, status=400)
