"""`onward schedule`: what comes when, stopping it, and reading an expression."""

import json

import pytest

from onward import State
from onward.cli.exits import Exit


@pytest.fixture
def report(jobs):
    @jobs.job
    def report(customer: str = "acme", token: str = "x") -> None: ...

    return report


@pytest.fixture
def nightly(jobs, report):
    return jobs.schedules.create("nightly", "30 2 * * *", report.call("acme"), tz="Europe/Berlin")


@pytest.mark.promise("S94")
def test_explain_gives_the_next_twenty_with_their_offsets_and_needs_no_store(onward, tmp_path):
    ran = onward("schedule", "explain", "30 2 * * *", "--tz", "Europe/Berlin", "--url", f"sqlite:///{tmp_path}/none.db")
    told = onward("schedule", "explain", "@every 30s", "-n", "3", "--json").json

    heading, *lines = ran.out.splitlines()
    assert (ran.code, ran.err, len(lines)) == (0, "", 20)
    assert heading.split() == ["LOCAL", "OFFSET", "UTC", "IN"]
    assert {line.split()[2] for line in lines} == {"02:30:00"}
    assert {line.split()[3] for line in lines} <= {"+0100", "+0200"}
    assert [sorted(each) for each in told] == [["local", "offset", "tick", "tz"]] * 3
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["61 * * * *"], "its minute must be"),
        (["* " * 50_000], "100,000 characters"),
        (["0 9 * * *", "--tz", "Europe/Berln"], "did you mean 'Europe/Berlin'?"),
        (["0 9 * * *", "-n", "0"], "not a number of at least 1"),
        (["@every 1s", "-n", "1000000"], "at most 10,000 ticks"),
        ([], "required: CRON"),
    ],
)
def test_what_cannot_be_explained_is_a_wrong_command_line(onward, words, text):
    ran = onward("schedule", "explain", *words)

    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert text in ran.err
    assert len(ran.err.splitlines()) == 1


def test_schedules_are_listed_with_what_comes_next(onward, nightly):
    people, (data,) = onward("schedule", "list"), onward("schedule", "list", "--json").json

    heading, line = people.out.splitlines()
    assert heading.split() == ["SCHEDULE", "STATE", "CRON", "TZ", "JOB", "NEXT", "MISSED", "ORIGIN"]
    assert line.startswith("nightly")
    assert "30 2 * * *" in line
    assert (data["name"], data["paused"], data["origin"], data["missed"]) == ("nightly", False, "runtime", 0)
    assert data["next"].endswith("Z")


def test_a_store_without_schedules_says_how_to_make_one(onward, jobs):
    ran = onward("schedule", "list")

    assert ran.code == 0
    assert "@jobs.schedule" in ran.err


def test_one_schedule_is_shown_with_its_arguments_and_no_secret(onward, jobs, report):
    jobs.schedules.create("s", "@every 30s", report.call("acme", token="very secret"), spread="5s")

    ran = onward("schedule", "show", "s")

    assert ran.code == 0
    assert "report(customer='acme', token='***') on queue default" in ran.out
    assert ran.out.count("next ") == 3
    assert "very secret" not in ran.out + onward("schedule", "show", "s", "--json").out
    assert "s" in onward("schedule", "next", "s", "-n", "2").out


def test_a_schedule_whose_job_is_a_flow_is_shown_with_its_nodes_and_run(onward, jobs, report):
    flow = jobs.flow("publish")
    flow.add(report, "last", after=flow.map(report, [("left",), ("right",)], node="parts"), node="end")
    jobs.schedules.create("s", "@every 30s", flow)

    people, (data,) = onward("schedule", "list").out, onward("schedule", "list", "--json").json
    flow_id = onward("schedule", "run", "s").out.strip()

    assert "flow publish" in people
    assert (data["job"], data["flow"], data["arguments"]) == ("onward.flow", "publish", {"parts": 2, "end": 1})
    assert "flow publish(parts=2, end=1) on queue default" in onward("schedule", "show", "s").out
    assert jobs.flows.get(flow_id).counts()[State.AVAILABLE] == 2


def test_a_schedule_is_paused_resumed_run_and_deleted(onward, jobs, nightly):
    said = [onward("schedule", verb, "nightly").out for verb in ("pause", "pause", "resume", "resume")]
    job_id = onward("schedule", "run", "nightly").out.strip()

    assert said == [
        "nightly paused\n",
        "nightly was already paused\n",
        "nightly resumed\n",
        "nightly was not paused\n",
    ]
    assert jobs.get(job_id).state is State.AVAILABLE
    assert onward("schedule", "delete", "nightly", "--json").json == [{"schedule": "nightly", "changed": True}]
    assert jobs.schedules.list() == []


@pytest.mark.parametrize("verb", ["show", "next", "pause", "resume", "run", "delete"])
def test_a_name_that_is_not_there_is_told_with_the_nearest(onward, nightly, verb):
    ran = onward("schedule", verb, "nigthly")

    assert (ran.code, ran.out) == (Exit.NOTHING, "")
    assert "did you mean 'nightly'?" in ran.err


def test_a_paused_schedule_says_so_where_its_ticks_are_asked_for(onward, nightly):
    onward("schedule", "pause", "nightly")

    ran = onward("schedule", "next", "nightly")

    assert ran.code == 0
    assert "onward schedule resume nightly" in ran.err
    assert json.loads(onward("schedule", "list", "--json").out)["next"] is None


def test_words_of_other_tools_lead_to_it(onward):
    for words in (["schedules"], ["cron", "list"], ["schedule", "rm"], ["schedule", "nxt"]):
        ran = onward(*words)

        assert ran.code == Exit.USAGE
        assert "`onward schedule" in ran.err
