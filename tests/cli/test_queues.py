"""`onward queue`: what waits where, and stopping it."""

from onward import State
from onward.backend import Claim


def test_a_queue_is_listed_with_its_jobs_by_state(onward, jobs, kill):
    kill("no", queue="mail")
    jobs.enqueue("x", queue="mail")
    jobs.enqueue("x", queue="mail")
    jobs.enqueue("x", queue="mail", delay="1h")
    jobs.backend.claim(Claim(queues=("mail",), owner="elsewhere"))

    (queue,) = onward("queue", "list", "--json").json

    assert (queue["queue"], queue["paused"]) == ("mail", False)
    assert {state: queue[state] for state in State if queue[state]} == {
        "available": 1,
        "executing": 1,
        "scheduled": 1,
        "discarded": 1,
    }
    assert queue["oldest_due"].endswith("Z")


def test_people_see_a_line_for_all_queues_together(onward, past, jobs, kill):
    kill("no", queue="empty-but-for-the-dead")
    past.enqueue("x", queue="mail")

    heading, mail, everywhere = onward("queue", "list").out.splitlines()

    assert heading.split()[:3] == ["QUEUE", "PAUSED", "DUE"]
    assert mail.split() == ["mail", "1", "0", "0", "0", "0", "0", "0", "60", "m", "ago"]
    assert everywhere.split() == ["(all", "queues)", "1", "0", "0", "0", "0", "1", "0"]


def test_a_paused_queue_gives_nothing_until_it_is_resumed(onward, jobs):
    jobs.enqueue("x", queue="mail")

    paused = onward("queue", "pause", "mail")
    claimed = jobs.backend.claim(Claim(queues=("mail",), owner="elsewhere"))
    listed = onward("queue", "list").out
    resumed = onward("queue", "resume", "mail")

    assert (paused.code, paused.out, paused.err) == (0, "mail is paused\n", "")
    assert claimed == []
    assert "paused" in listed.splitlines()[1]
    assert (resumed.code, resumed.out) == (0, "mail is open\n")
    assert len(jobs.backend.claim(Claim(queues=("mail",), owner="elsewhere"))) == 1


def test_saying_it_twice_is_harmless(onward, jobs):
    onward("queue", "pause", "mail", "web")

    again = onward("queue", "pause", "mail", "--json")

    assert (again.code, again.json) == (0, [{"queue": "mail", "paused": True, "changed": False}])
    assert onward("queue", "pause", "web").out == "web was already paused\n"


def test_pausing_an_unused_queue_is_noted(onward, jobs):
    jobs.enqueue("x", queue="mail")

    ran = onward("queue", "pause", "mial")

    assert (ran.code, ran.err) == (0, "note: nothing waits in mial\n")


def test_a_queue_may_be_paused_before_there_is_a_store(onward, url):
    assert onward("queue", "pause", "mail").code == 0
    assert onward("queue", "list", "--json").json[0]["paused"]
