"""`onward why`."""

import asyncio
import json
import shlex
from contextlib import suppress
from datetime import datetime
from types import SimpleNamespace

import msgspec
import pytest

from onward.operate.why.reason import CODES
from onward.web import Dashboard, Token
from tests.operate.why_stories import Application, tell
from tests.web.asking import PEOPLE, Client


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


def test_the_application_that_is_named_is_in_the_command_to_type(onward, jobs, shop):
    app, job = shop(jobs.settings.url), jobs.enqueue("work", queue="mail")

    assert "do       onward worker MODULE:ATTRIBUTE --queues mail\n" in onward("why", job.id).out
    assert f"do       onward worker {app} --queues mail\n" in onward("--app", app, "why", job.id).out


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


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    """One job for every reason, in one store."""
    path = tmp_path_factory.mktemp("stories") / "jobs.db"
    ids, instant = tell(path)
    return SimpleNamespace(path=path, ids=ids, instant=instant)


STOOD_STILL = """\
from datetime import datetime
from tests.operate.why_stories import Application

jobs = Application({url[0]!r}, datetime.fromisoformat({url[1]!r})).jobs
"""


@pytest.mark.promise("S130")
@pytest.mark.parametrize("code", CODES)
def test_every_reason_is_the_same_in_code_in_the_api_and_on_the_command_line(onward, shop, stories, code):
    job_id = stories.ids[code]
    first, second = (shop((str(stories.path), stories.instant.isoformat()), STOOD_STILL) for _ in range(2))

    (told,) = onward("--app", first, "why", job_id, "--json").json
    read = onward("--app", second, "why", job_id).out
    with Application(stories.path, stories.instant).jobs as jobs:
        said, awaited = jobs.why(job_id), asyncio.run(jobs.awhy(job_id))
        ask = Client(Dashboard(jobs, auth=Token(PEOPLE)))
        answered = ask.get(f"jobs/{job_id}/why")
        shown = ask.get(f"jobs/{job_id}", status=404 if code == "gone" else 200)

    assert said.code == code
    assert awaited == said
    everything = msgspec.to_builtins(said)
    assert instants({name: told[name] for name in everything}) == instants(everything)
    facts = json.loads(answered["facts"])
    assert instants({name: answered[name] for name in everything} | {"facts": facts}) == instants(everything)
    if code == "gone":
        assert (shown["message"], shown["fix"]) == (said.text, said.fix)
    else:
        assert shown["why"] == answered
    assert read.startswith(f"{code}  {said.text}")
    fix = said.fix.replace("MODULE:ATTRIBUTE", second)
    assert f"do       {fix}" in read if said.fix else "do  " not in read


def instants(value):
    """The same value, with its instants as such: each face may write them in its own way."""
    if isinstance(value, dict):
        return {name: instants(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [instants(each) for each in value]
    with suppress(ValueError, TypeError):
        return datetime.fromisoformat(value)
    return value
