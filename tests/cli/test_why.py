"""`onward why`."""

import asyncio
import json
import shlex

import msgspec
import pytest

from onward.operate.why.explaining import Explainer
from onward.operate.why.reason import CODES
from tests.operate.test_why import STORIES


@pytest.fixture
def late(jobs):
    return jobs.job(name="work")(lambda: None).using(delay=3600).enqueue()


def test_people_read_the_reason_and_what_to_type(onward, late):
    ran = onward("why", late.id)

    first, *rest = ran.out.splitlines()
    assert ran.code == 0
    assert first.startswith("not_due  It is due at ")
    assert rest[0].split(maxsplit=1) == ["do", f"onward job retry {late.id}"]
    assert rest[1].startswith("until")
    assert rest[2].split() == ["then", "unserved,", "first_in_line"]


def test_machines_get_what_the_application_says(onward, jobs, late):
    (told,) = onward("why", late.id[:20], "--json").json

    said = jobs.why(late.id)
    assert (told["id"], told["code"], told["fix"]) == (late.id, said.code, said.fix)
    assert told["then"] == list(said.then) == ["unserved", "first_in_line"]
    assert told["exact"] is True


def test_the_application_that_is_named_is_in_the_command_to_type(onward, jobs, tmp_path):
    (tmp_path / "shop.py").write_text(f"from onward import Onward\njobs = Onward({jobs.settings.url!r})\n")
    job = jobs.enqueue("work", queue="mail")

    assert "do       onward worker MODULE:ATTRIBUTE --queues mail\n" in onward("why", job.id).out
    assert "do       onward worker shop:jobs --queues mail\n" in onward("--app", "shop:jobs", "why", job.id).out


def test_a_job_that_is_not_there_is_explained_too(onward, late):
    ran = onward("why", "01a1e1c927a47256b9db3787c0671325")

    assert ran.code == 6
    assert ran.out.startswith("gone  There is no job 01a1e1c927a47256b9db3787c0671325")


def test_what_it_advises_for_a_dead_job_can_be_typed(onward, jobs):
    @jobs.job(name="send-mail")
    def send() -> None:
        raise ValueError("no address")

    dead = send.enqueue()
    jobs.drain()
    advice = onward("why", dead.id).out.splitlines()[1]
    command = advice.partition("`onward ")[2].rstrip("`")
    assert shlex.split(command)[:4] == ["dead", "canary", "--job", "send-mail"]

    typed = onward(*shlex.split(command), "--patience", "0.1s")

    assert jobs.get(dead.id).state == "available"
    assert "replayed" in typed.out


@pytest.mark.promise("S130")
@pytest.mark.parametrize("code", CODES)
def test_every_reason_is_the_same_in_the_api_and_on_the_command_line(onward, jobs, late, monkeypatch, code):
    case = STORIES[code]()
    monkeypatch.setattr(Explainer, "case", lambda *_: case)
    said = jobs.why(late.id)

    (told,) = onward("why", late.id, "--json").json
    read = onward("why", late.id).out

    assert said.code == code
    assert asyncio.run(jobs.awhy(late.id)) == said
    as_data = json.loads(msgspec.json.encode(said))
    assert {name: told[name] for name in as_data if name != "until"} == {
        name: value for name, value in as_data.items() if name != "until"
    }
    assert (told["until"] is None) == (said.until is None)
    assert read.startswith(f"{code}  {said.text}")
    assert f"do       {said.fix}" in read if said.fix else "do  " not in read
