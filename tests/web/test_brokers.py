"""What a store cannot do is told before it is asked for, and refused with the same sentence."""

import pytest

from onward import Onward
from onward.web import Dashboard, Token
from tests.servers.beanstalkd import beanstalkd_server
from tests.web.asking import PEOPLE, Client


@pytest.fixture(scope="module")
def server():
    with beanstalkd_server() as server:
        yield server


@pytest.mark.promise("S150")
def test_beanstalkd_without_a_store_says_what_it_cannot(server):
    with Onward(server.url()) as jobs:

        @jobs.job(queue="mail", max_retries=0)
        def send(user_id: int) -> None:
            raise ValueError("no")

        send.enqueue(1)
        jobs.process_once("mail")
        ask = Client(Dashboard(jobs, auth=Token(PEOPLE)))
        unavailable = ask.get("session")["unavailable"]
        refused = {
            "look": ask.get("pulse", status=501),
            "workers": ask.get("workers", status=501),
            "groups": ask.get("groups", status=501),
            "flows": ask.get("flows", status=501),
            "limits": ask.get("limits", status=501),
            "audit": ask.get("audit", status=501),
            "dead": ask.get("jobs", status=501, filter="state:dead"),
            "pause": ask.post("queues/mail/pause", status=501),
        }

        assert {"look", "jobs", "workers", "series", "groups", "flows", "limits", "schedules", "audit"} <= set(
            unavailable
        )
        assert {"retry", "cancel", "replay", "purge", "pause", "edit", "canary", "signal"} <= set(unavailable)
        assert all(answer["error"] == "unsupported" for answer in refused.values())
        assert unavailable["look"] == refused["look"]["message"]
        assert 'Onward(url, store="sqlite:///onward.db")' in unavailable["look"]
        assert ask.send("GET", "readyz").status == 200
        ask.get("health")


@pytest.mark.promise("S150")
def test_a_store_that_can_do_all_greys_nothing(shop, ask):
    assert ask.get("session")["unavailable"] == {}
    assert set(ask.as_("mia").get("session")["unavailable"]) == {"flows", "flow", "audit"}
