"""`onward audit`, and what commands leave in the audit trail: who acted, and why."""

import getpass
import platform
import sqlite3
from contextlib import closing

import pytest

from onward import Limit
from onward.cli.command import Command, Group
from onward.cli.commands import TREE

ME = f"{getpass.getuser()}@{platform.node()}"


@pytest.fixture
def late(jobs):
    return jobs.enqueue("send", {}, delay="1h")


def test_a_command_names_the_user_of_this_host(onward, jobs):
    onward("queue", "pause", "mail")

    assert [(each.who, each.act, each.ref, each.detail) for each in jobs.audit()] == [(ME, "pause", "mail", "")]


def test_the_environment_and_the_command_line_overrule_it(onward, jobs, monkeypatch, late):
    monkeypatch.setenv("ONWARD_BY", "deploy-bot")
    told = onward("job", "retry", late.id, "--reason", "now")
    onward("job", "cancel", late.id, "--by", "ann", "--reason", "a mistake")

    assert "ONWARD_BY" not in told.err
    assert [(each.who, each.act, each.detail) for each in jobs.audit()] == [
        ("ann", "cancel", "a mistake"),
        ("deploy-bot", "retry", "now"),
    ]
    assert jobs.get(late.id).reason == "a mistake"


# What every command that acts leaves in the audit trail, for people who name jobs and for those who give a filter.
ACTS = {
    ("queue", "pause", "letters"): ["pause"],
    ("queue", "resume", "mail"): ["resume"],
    ("job", "retry", "{late}"): ["retry"],
    ("job", "retry", "--filter", "job:send"): ["bulk", "retry"],
    ("job", "cancel", "{late}"): ["cancel"],
    ("job", "cancel", "--filter", "job:send"): ["bulk", "cancel"],
    ("job", "purge", "--filter", "state:completed", "--yes"): ["bulk", "purge"],
    ("job", "signal", "{late}", "paid"): ["signal"],
    ("dead", "replay", "{dead}"): ["replay"],
    ("dead", "replay", "--all"): ["bulk", "replay"],
    ("dead", "purge", "{dead}", "--yes"): ["purge"],
    ("dead", "purge", "--all", "--yes"): ["bulk", "purge"],
    ("dead", "canary", "--all", "--patience", "0.1s"): ["canary", "replay"],
    ("dead", "edit", "{dead}", "--set", 'message="yes"'): ["edit"],
    ("limit", "set", "--queue", "mail", "--running", "3"): ["limit-set"],
    ("limit", "clear", "--queue", "news"): ["limit-clear"],
    ("limit", "forget", "--queue", "news"): ["limit-forget"],
    ("limit", "shut", "render"): ["limit-shut"],
    ("limit", "open", "export"): ["limit-open"],
    ("schedule", "pause", "nightly"): ["pause-schedule"],
    ("schedule", "resume", "weekly"): ["resume-schedule"],
    ("schedule", "run", "nightly"): ["run-schedule"],
    ("schedule", "delete", "nightly"): ["delete-schedule"],
    ("flow", "cancel", "{flow}"): ["cancel-flow"],
    ("flow", "retry", "{flow}"): ["retry-flow"],
    ("forget", "order:42", "--job", "pay"): ["forget-key"],
}


@pytest.fixture
def busy(jobs, kill, late):
    """Fill a store with what commands can change; returns the ids that they name."""
    pay = jobs.job(name="pay")(lambda: None)
    pay.using(idempotency_key="order:42").enqueue()
    jobs.drain()
    for name in ("render", "export"):
        jobs.job(name=name, limit=Limit(running=3))(lambda: None)
        jobs.limits.set(name, running=3)
    jobs.limits.shut("export")
    jobs.pause("mail")
    jobs.limits.set(queue="news", running=3)
    for name in ("nightly", "weekly"):
        jobs.schedules.create(name, "0 3 * * *", pay.call())
    jobs.schedules.pause("weekly")
    return {"dead": kill("no")[0], "late": late.id, "flow": jobs.chain(pay.call(), pay.call()).enqueue().id}


@pytest.mark.promise("S136")
@pytest.mark.parametrize("command", ACTS, ids=" ".join)
def test_every_command_that_acts_takes_who_and_why(onward, jobs, busy, command):
    ran = onward(*(word.format(**busy) for word in command), "--by", "ann", "--reason", "the night shift")

    entries = jobs.audit()
    assert sorted(each.act for each in entries) == ACTS[command], ran.err
    assert {each.who for each in entries} == {"ann"}
    assert all(each.detail.endswith("the night shift") for each in entries)


def test_the_table_above_has_every_command_that_acts():
    tree = [((each.name,), each) for each in TREE if isinstance(each, Command)]
    tree += [((group.name, each.name), each) for group in TREE if isinstance(group, Group) for each in group.commands]
    acting = {names for names, each in tree if "--by" in [argument.name for argument in each.arguments]}

    elsewhere = {("schedule", "import")}  # it needs an application of Celery's: tests/compat/test_schedules.py
    assert acting - elsewhere == {command[: 1 if command[0] == "forget" else 2] for command in ACTS}


def test_people_read_the_newest_first(onward, jobs, late):
    jobs.pause("mail", by="ann", reason="the relay is down")
    jobs.retry(late.id, by="bob")

    heading, first, second = onward("audit").out.splitlines()

    assert heading.split() == ["WHEN", "WHO", "ACT", "JOB", "ABOUT", "REASON"]
    assert (first.split()[2:], second.split()[2:6]) == (["bob", "retry", late.id], ["ann", "pause", "mail", "the"])


def test_entries_are_found_by_job_person_and_kind(onward, jobs, late):
    jobs.pause("mail", by="ann")
    jobs.retry(late.id, by="ann")
    jobs.cancel(late.id, by="bob")

    def acts(*words):
        return [each["act"] for each in onward("audit", "--json", *words).json]

    assert acts("--job", late.id[:20]) == ["cancel", "retry"]
    assert acts("--who", "ann") == ["retry", "pause"]
    assert acts("--act", "pause") == ["pause"]
    assert acts("--ref", "mail") == ["pause"]
    assert acts("--job", "f" * 32) == []


def test_pages_go_on_where_the_last_one_ended(onward, jobs):
    for number in range(3):
        (jobs.resume if number % 2 else jobs.pause)("mail", by=f"ann{number}")
    first = onward("audit", "--limit", "2", "--json")
    place = first.json[-1]["place"]

    assert f"--before {place}" in onward("audit", "--limit", "2").err
    assert [each["who"] for each in onward("audit", "--before", place, "--json").json] == ["ann0"]
    assert onward("audit", "--before", "yesterday").code != 0


def test_an_empty_trail_says_so(onward, jobs, late):
    ran = onward("audit")

    assert (ran.code, ran.out) == (0, "")
    assert "no entries" in ran.err


def test_an_altered_entry_is_shown_as_such(onward, jobs, late, monkeypatch, tmp_path):
    monkeypatch.setenv("ONWARD_SIGNING_KEYS", "2030:" + "k" * 43)
    onward("job", "retry", late.id, "--by", "ann")
    assert "verified" in onward("audit").out

    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
        connection.execute("UPDATE onward_audit SET who = 'bob'")
    assert "ALTERED" in onward("audit").out
    assert "by bob  (ALTERED: its signature does not match)" in onward("job", "show", late.id).out


def test_a_job_is_shown_with_what_people_did_to_it(onward, jobs, late):
    jobs.retry(late.id, by="ann", reason="the client waits")

    assert "retry by ann: the client waits" in onward("job", "show", late.id).out
    (shown,) = onward("job", "show", late.id, "--json").json
    assert [(each["act"], each["who"]) for each in shown["audit"]] == [("retry", "ann")]


def test_why_names_who_paused_the_queue_and_who_cancelled_the_job(onward, jobs):
    job = jobs.enqueue("send", {}, queue="mail")
    jobs.pause("mail", by="ann", reason="the relay is down")
    assert 'by ann ("the relay is down").' in onward("why", job.id).out

    jobs.cancel(job.id, "a mistake", by="bob")
    assert "by bob: a mistake." in onward("why", job.id).out


def test_why_names_who_purged_a_dead_job(onward, jobs, kill):
    (dead,) = kill("no")
    jobs.dead_letters.purge([dead], by="ann", reason="known since May")

    ran = onward("why", dead)
    assert ran.code == 6
    assert 'jobs were purged by ann ("known since May")' in ran.out


def test_why_names_who_purged_jobs_by_a_filter(onward, jobs, kill):
    dead, other = kill("no", "no")
    onward("dead", "purge", "--all", "--yes", "--by", "ann", "--reason", "known since May")

    for gone in (dead, other):
        assert 'jobs were purged by ann ("known since May")' in onward("why", gone).out
