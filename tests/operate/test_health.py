"""The checks of a fleet: from when on each speaks, of whom, and what it says to type."""

import os
import shlex
import subprocess
import threading
import time
from contextlib import ExitStack
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward import Onward
from onward.backend import Check, Death, DeathGroup, QueueCounts, Sample, Session, SessionState, StoredJob
from onward.base.clock import SECOND
from onward.contract.description import WorkerDescription
from onward.errors import Unsupported
from onward.job.states import LIVE, State
from onward.operate.health.changes import compare
from onward.operate.health.findings import DyingGroup, Findings, HealthSettings, ScheduleFinding
from onward.operate.health.rules import RULES, checks
from onward.operate.series.measured import Measured, merged
from onward.operate.why.case import Described
from onward.operate.why.reason import Reason
from onward.telemetry import HealthChanged, JobCompleted, events
from onward.telemetry.numbers import Numbers
from onward.testing import FakeClock
from tests.servers import redis as redis_servers
from tests.waiting import eventually

NOW = FakeClock().micros()
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND


def a_job(number=1, **fields):
    plain = {
        "id": f"{number:032x}",
        "queue": "mail",
        "job": "send",
        "data": b"",
        "state": State.AVAILABLE,
        "priority": 0,
    }
    counters = dict.fromkeys(("attempts", "delivery", "crashes", "interruptions"), 0)
    return StoredJob(**plain | counters | {"available_at": NOW, "enqueued_at": NOW} | fields)


def a_worker(owner="w", *, host="web-1", pid=7, version="0.1.0", expires_in=30, leases=0, **said):
    description = WorkerDescription(**{"queues": ("mail",), "concurrency": 2, "jobs": ("send",), "started": NOW} | said)
    session = SessionState(
        owner=owner,
        lease_for=timedelta(seconds=30),
        host=host,
        pid=pid,
        version=version,
        expires_at=NOW + expires_in * SECOND,
        leases=leases,
    )
    return Described(session, description)


def a_queue(name="mail", *, due_for=None, paused_for=None, **counts):
    return QueueCounts(
        name=name,
        paused=paused_for is not None,
        counts=dict.fromkeys(LIVE, 0) | {State(state): number for state, number in counts.items()},
        oldest_due=None if due_for is None else NOW - round(due_for * SECOND),
        paused_at=None if paused_for is None else NOW - round(paused_for * SECOND),
    )


def found(name, **known):
    """The check of this name."""
    (check,) = [check for check in checks(Findings(**{"now": NOW, "here": NOW} | known)) if check.name == name]
    return check


def told(check):
    return check.status, check.fix


class TestQueues:
    def test_one_that_no_live_worker_serves_warns_at_once_and_fails_after_five_minutes(self):
        fix = "onward worker MODULE:ATTRIBUTE --queues mail"
        others = [a_worker(queues=("web",)), a_worker("x", expires_in=-1)]

        assert told(found("served", queues=[a_queue(due_for=1)], sessions=others)) == ("warn", fix)
        assert told(found("served", queues=[a_queue(due_for=300)], sessions=others)) == ("fail", fix)
        assert found("served", queues=[a_queue(due_for=300)], sessions=others).about == ("mail",)

    @pytest.mark.parametrize("queues", [("mail",), ("m*",), ("*",)])
    def test_one_that_is_served_is_fine_however_late(self, queues):
        assert found("served", queues=[a_queue(due_for=9e5)], sessions=[a_worker(queues=queues)]).status == "ok"

    def test_one_that_has_nothing_due_or_is_paused_needs_no_worker(self):
        assert found("served", queues=[a_queue(), a_queue("web", due_for=900, paused_for=1)]).status == "ok"

    def test_one_is_late_when_its_oldest_due_job_has_waited_for_five_minutes(self):
        workers = [a_worker(leases=2)]

        assert found("late", queues=[a_queue(due_for=300)], sessions=workers).status == "ok"
        check = found("late", queues=[a_queue(due_for=301, available=12)], sessions=workers)
        assert told(check) == ("fail", "onward worker MODULE:ATTRIBUTE --queues mail")
        assert "2 of 2 slots are taken on 1 process, and 12 jobs wait" in check.detail

    def test_a_queue_may_have_a_time_of_its_own(self):
        settings = HealthSettings(late_after=10, queue_late_after={"mail": 1000})
        queues = [a_queue(due_for=900), a_queue("web", due_for=11)]

        assert found("late", queues=queues, settings=settings).about == ("web",)

    def test_a_late_queue_says_what_holds_its_first_job(self):
        reason = Reason(
            code="limited", text="Limit send is reached: 3 of 3 run.", fix="onward limit set send --running 9"
        )
        known = {"queues": [a_queue(due_for=900)], "waiting": [a_job()], "explained": {a_job().id: reason}}

        check = found("late", sessions=[a_worker()], **known)

        assert reason.text in check.detail
        assert check.fix == reason.fix

    def test_a_paused_queue_is_not_late(self):
        assert found("late", queues=[a_queue(due_for=900, paused_for=800)]).status == "ok"

    def test_a_pause_is_forgotten_after_a_day(self):
        day = 86_400

        assert found("paused", queues=[a_queue(paused_for=day)]).status == "ok"
        assert told(found("paused", queues=[a_queue(paused_for=day + 1)])) == ("warn", "onward queue resume mail")


PARKED = {"state": State.SCHEDULED, "parked_since": NOW - MINUTE, "waits": 1}


class TestJobs:
    def test_parked_ones_are_counted_by_name(self):
        waiting = [a_job(n, job="sned" if n < 3 else "other", **PARKED) for n in range(4)]
        unknown = Reason(
            code="unknown_job", text="Job 'sned' is not registered on the one worker of its queue: did you mean 'send'?"
        )

        check = found("known", waiting=waiting, sessions=[a_worker()], explained={waiting[0].id: unknown})

        assert check.status == "fail"
        assert check.about == ("sned", "other")
        assert "3 jobs 'sned' are parked: Job 'sned' is not registered" in check.detail
        assert "did you mean 'send'" in check.detail
        assert check.fix.startswith("onward worker MODULE:ATTRIBUTE --queues mail")

    def test_one_that_a_worker_knows_by_now_only_waits(self):
        job = a_job(**PARKED)

        assert told(found("known", waiting=[job], sessions=[a_worker()])) == ("warn", f"onward job retry {job.id}")

    def test_deaths_of_a_new_kind_warn_and_ten_times_as_many_fail(self):
        def died(count, *, first_ago, lately, looked_at=None):
            first, last = Death(f"{1:032x}", NOW - first_ago), Death(f"{2:032x}", NOW)
            group = DeathGroup(job="send", fingerprint="3fa9c2d1e0b7", count=count, first=first, last=last)
            return found("dying", dying=[DyingGroup(group, lately, looked_at or count, "Timeout", "v2")])

        fix = "onward dead canary --job send --group 3fa9c2d1e0b7  # once the cause is fixed"
        assert told(died(1, first_ago=HOUR, lately=1)) == ("warn", fix)
        assert "1 job 'send' has died of Timeout within 1 h, first in build v2" in died(1, first_ago=0, lately=1).detail
        assert died(3, first_ago=HOUR + 1, lately=2).status == "ok"
        assert died(10, first_ago=2 * HOUR, lately=8).status == "ok"
        assert told(died(10, first_ago=2 * HOUR, lately=9)) == ("fail", fix)
        assert died(5_000, first_ago=2 * HOUR, lately=100, looked_at=100).status == "fail"
        assert died(10, first_ago=2 * HOUR, lately=9).about == ("send 3fa9c2d1e0b7",)

    def test_the_culprit_of_crashes_is_named(self):
        once, twice = a_job(1, job="a", crashes=1), a_job(2, job="b", crashes=2)

        assert told(found("crashing", waiting=[once])) == ("warn", f"onward job cancel {once.id}")
        check = found("crashing", waiting=[once, twice])
        assert told(check) == ("fail", f"onward job cancel {twice.id}")
        assert check.about == ("b", "a")
        assert "job 'b' on queue mail has ended 2 worker processes" in check.detail

    def test_one_that_runs_for_an_hour_without_a_time_out_is_stuck(self):
        def runs(age, timeout=None):
            job = a_job(state=State.EXECUTING, owner="w", started_at=NOW - age)
            return found("stuck", running=[job], timeouts={} if timeout is None else {job.id: timeout})

        assert runs(HOUR).status == "ok"
        assert told(runs(HOUR + SECOND)) == ("warn", f"onward job cancel {a_job().id}")
        assert runs(5 * HOUR, timeout=5 * 3600).status == "ok"
        assert "its time-out of 10 s has not ended it" in runs(71 * SECOND, timeout=10).detail

    def test_one_that_runs_ten_times_as_long_as_it_used_to_is_stuck_after_ten_minutes(self):
        def runs(age, p99):
            job = a_job(state=State.EXECUTING, owner="w", started_at=NOW - age)
            return found("stuck", running=[job], timeouts={job.id: 86_400}, p99={"send": p99})

        assert runs(600 * SECOND, 2).status == "ok"
        assert "where 99 of 100 runs took 2.0 s at most" in runs(601 * SECOND, 2).detail
        assert runs(1_000 * SECOND, 100).status == "ok"
        assert runs(1_001 * SECOND, 100).status == "warn"


class TestWorkers:
    def test_an_expired_session_has_a_lease_of_time_to_be_reaped(self):
        assert found("sessions", sessions=[a_worker(expires_in=-30, leases=1)]).status == "ok"
        check = found("sessions", sessions=[a_worker(expires_in=-31, leases=1), a_worker("x", expires_in=-31)])
        assert told(check) == ("fail", "onward reap")
        assert "web-1, process 7 was heard of last 1 min 1 s ago, and 1 job of it is not given back" in check.detail
        assert found("sessions", sessions=[a_worker(expires_in=-31)]).status == "warn"

    def test_two_builds_have_half_an_hour(self):
        def two(age):
            old = a_worker("a", host="web-1", build="1", started=NOW - 5 * HOUR, supervisor=6)
            return found("builds", sessions=[old, a_worker("b", host="web-2", build="2", started=NOW - age)])

        assert two(30 * MINUTE).status == "ok"
        assert "build 2 replaces 1" in two(MINUTE).detail
        assert told(two(31 * MINUTE)) == ("warn", "ssh web-1 kill -TERM 6")
        assert "build 1 still runs on web-1 (process 7), 31 min after 2 has started" in two(31 * MINUTE).detail

    def test_a_dead_worker_is_no_second_build(self):
        old = a_worker("a", build="1", started=NOW - 5 * HOUR, expires_in=-1)

        assert found("builds", sessions=[old, a_worker("b", build="2", started=NOW - 2 * HOUR)]).status == "ok"

    def test_two_releases_are_told_and_an_older_one_here(self):
        old = a_worker("a", version="0.1.0", started=NOW - 5 * HOUR)
        new = a_worker("b", version="0.10.0", started=NOW - 2 * HOUR)

        assert "release of Onward 0.1.0 still runs" in found("versions", sessions=[old, new]).detail
        here = HealthSettings(release="0.9.1")
        assert told(found("versions", sessions=[new], settings=here)) == ("warn", "pip install onward==0.10.0")
        assert found("versions", sessions=[old], settings=here).status == "ok"

    def test_a_worker_without_the_key_that_signs_fails(self):
        settings = HealthSettings(signing_key="k2")

        assert found("keys", sessions=[a_worker(keys=("k1", "k2"))], settings=settings).status == "ok"
        check = found("keys", sessions=[a_worker(keys=("k1",))], settings=settings)
        assert check.status == "fail"
        assert check.fix.startswith("ssh web-1 kill -TERM 7")
        assert "lacks key k2" in check.detail

    def test_a_worker_that_reads_its_key_file_again_is_not_blamed_for_what_it_said_at_its_start(self):
        workers = [a_worker(keys=("k1",), key_file=True)]

        assert found("keys", sessions=workers, settings=HealthSettings(signing_key="k2")).status == "ok"

    def test_clocks_may_differ_by_two_seconds_and_by_how_long_the_question_took(self):
        assert found("clock", here=NOW + 2 * SECOND).status == "ok"
        assert found("clock", here=NOW - 5 * SECOND, asked_for=3 * SECOND).status == "ok"
        assert found("clock", here=NOW + 3 * SECOND, host="web-1").detail == (
            "the clock of web-1 is 3.0 s ahead of the store's"
        )
        assert "behind" in found("clock", here=NOW - 3 * SECOND).detail

    def test_jobs_that_ran_unverified_are_told_whether_or_not_a_key_signs_here(self):
        here = found("keys", unverified=3)
        elsewhere = found("keys", unverified=1, settings=HealthSettings(signing_key="k"))

        assert told(here) == ("warn", "give the programs that enqueue them the key; `onward keys` tells how")
        assert here.detail.startswith("3 jobs ran in the last half-hour whose signature is missing or wrong")
        assert elsewhere.detail.startswith("1 job ran in the last half-hour")

    def test_workers_that_send_no_samples_for_two_minutes_are_told_to_restart(self):
        def of(ago, *, started_ago=HOUR, samples=True, lease_for=30, **more):
            sampled_at = None if ago is None else NOW - ago - MINUTE
            worker = a_worker(started=NOW - started_ago, samples=samples, supervisor=12)
            session = msgspec.structs.replace(worker.session, lease_for=timedelta(seconds=lease_for))
            worker = Described(session, worker.description)
            return found("samples", sessions=[worker], sampled_at=sampled_at, **more)

        assert of(0).status == of(2 * MINUTE).status == "ok"
        assert of(2 * MINUTE + 1).status == of(None).status == "warn"
        assert told(of(None))[1] == "ssh web-1 kill -TERM 12  # once the store takes samples"
        assert "no sample has come for 2 min, though 1 worker runs" in of(None).detail
        assert of(None, samples=False).status == "ok"
        assert of(5 * MINUTE, lease_for=600).status == "ok"  # one that renews every 200 s
        assert of(11 * MINUTE, lease_for=600).status == "warn"
        assert of(None, started_ago=2 * MINUTE).status == "ok"
        assert of(None, here=NOW - 10 * MINUTE).status == "ok"
        assert found("samples", sessions=[]).status == "ok"

    def test_events_that_subscribers_did_not_get_are_told_with_missing_samples_or_without(self):
        silent = a_worker(started=NOW - HOUR, samples=True)
        alone, both = found("samples", events_dropped=1), found("samples", events_dropped=1_000, sessions=[silent])

        assert alone.status == both.status == "warn"
        assert alone.detail.startswith("1 event was dropped in the last half-hour")
        assert alone.fix.startswith("let these functions return at once")
        assert "; 1,000 events were dropped in the last half-hour" in both.detail
        assert both.about == ("web-1", "events")


class TestSchedules:
    def late(self, *, age=5 * MINUTE, origin="code", sessions=()):
        schedule = ScheduleFinding("nightly", origin, NOW - HOUR, NOW - age)
        return found("schedules", schedules=[schedule], sessions=sessions)

    def test_a_tick_without_a_job_is_late_after_two_minutes(self):
        assert self.late(age=2 * MINUTE).status == "ok"
        assert told(self.late(age=2 * MINUTE + 1)) == ("fail", "onward worker MODULE:ATTRIBUTE")

    def test_one_that_left_the_code_is_not(self):
        after, before = a_worker(started=NOW - HOUR + 1), a_worker("x", started=NOW - 2 * HOUR)

        assert self.late(sessions=[after]).status == "ok"
        assert self.late(sessions=[after], origin="runtime").status == "fail"
        assert self.late(sessions=[after, before]).status == "fail"

    def test_one_that_cannot_be_read_is_named(self):
        schedule = ScheduleFinding("nightly", "code", NOW, problem="it was changed")

        assert told(found("schedules", schedules=[schedule])) == ("warn", "onward schedule show nightly")


FAILING = {
    "queues": [a_queue(due_for=900), a_queue("old", paused_for=9e5)],
    "waiting": [a_job(1, state=State.SCHEDULED, parked_since=NOW), a_job(2, crashes=2)],
    "running": [a_job(3, state=State.EXECUTING, started_at=NOW - 2 * HOUR)],
    "sessions": [
        a_worker("a", build="1", version="0.1.0", queues=("x",), started=NOW - 5 * HOUR, samples=True),
        a_worker("b", build="2", version="0.2.0", queues=("x",), started=NOW - 2 * HOUR),
        a_worker("c", expires_in=-90, leases=1),
    ],
    "schedules": [ScheduleFinding("nightly", "runtime", 0, NOW - HOUR)],
    "dying": [
        DyingGroup(DeathGroup(job="x", fingerprint="f", count=9, first=Death("a", NOW), last=Death("b", NOW)), 9, 9)
    ],
    "here": NOW + MINUTE,
    "settings": HealthSettings(signing_key="k"),
}


class TestAll:
    def test_a_quiet_fleet_is_fine(self):
        assert {check.status for check in checks(Findings(now=NOW, here=NOW))} == {"ok"}

    @pytest.mark.promise("S159")
    def test_every_check_that_does_not_pass_names_its_fix(self):
        failing = checks(Findings(**{"now": NOW} | FAILING))

        assert [check.name for check in failing if check.status == "ok"] == []
        assert [check.name for check in failing if not check.fix or not check.about] == []
        assert len(failing) == len(RULES)

    def test_a_check_names_three_and_counts_the_others(self):
        check = found("served", queues=[a_queue(f"q{n}", due_for=900) for n in range(30)])

        assert check.detail.count("no live worker") == 3
        assert check.detail.endswith("; and 27 more")
        assert len(check.about) == 20

    def test_the_worst_decides_and_its_fix_is_named(self):
        check = found("served", queues=[a_queue("a", due_for=1), a_queue("b", due_for=900)])

        assert (check.status, check.fix.split()[-1], check.about) == ("fail", "b", ("b", "a"))


class TestChanges:
    FINE = Check(name="late", status="ok", detail="fine")
    LATE = Check(name="late", status="fail", detail="mail is late", fix="onward worker", about=("mail",))

    def test_another_status_is_told_both_ways(self):
        (worse,), (better,) = compare([self.FINE], [self.LATE]), compare([self.LATE], [self.FINE])

        assert (worse.check, worse.before, worse.status, worse.fix) == ("late", "ok", "fail", "onward worker")
        assert (better.before, better.status) == ("fail", "ok")

    def test_one_queue_more_is_told_and_one_less_is_not(self):
        both = msgspec.structs.replace(self.LATE, about=("mail", "web"))

        assert [change.about for change in compare([self.LATE], [both])] == [("mail", "web")]
        assert compare([both], [self.LATE]) == []

    def test_only_an_age_has_changed(self):
        assert compare([self.LATE], [msgspec.structs.replace(self.LATE, detail="mail is later")]) == []

    def test_what_was_not_there_was_fine_and_what_is_not_there_is(self):
        assert [change.before for change in compare([], [self.LATE, self.FINE])] == ["ok"]
        assert [(change.before, change.status) for change in compare([self.LATE], [])] == [("fail", "ok")]
        assert compare([self.FINE], []) == []

    @given(st.lists(st.sampled_from([FINE, LATE]), max_size=1))
    def test_nothing_is_told_twice(self, found):
        assert compare(found, found) == []


class TestAsking:
    @pytest.fixture
    def jobs(self, clock):
        with Onward("memory://", clock=clock) as jobs:
            yield jobs

    def test_an_empty_store_is_fine(self, jobs):
        assert {check.status for check in jobs.health()} == {"ok"}

    def test_a_running_worker_describes_itself(self, jobs):
        job = jobs.job(name="send", queue="mail")(lambda: None)
        with jobs.worker(queues=["mail"]):
            job.enqueue().result(10)
            (worker,) = jobs._parts.operators.health.findings().described

        assert worker[1].queues == ("mail",)
        assert worker[1].supervisor == 0
        assert worker[1].samples

    def test_samples_tell_when_the_last_came_and_what_ran_unverified(self, jobs, clock):
        counted = Numbers({"jobs_unverified": 2})
        minute = clock.micros() - clock.micros() % MINUTE
        for reporter in ("a", "b"):
            data = Measured(numbers={("mail", "send"): counted}, events_dropped=3).encoded()
            jobs.backend.extend("", sample=Sample(reporter, minute, data))
        jobs.backend.extend("", sample=Sample("c", minute, b"damaged"))

        found = jobs._parts.operators.health.findings()

        assert (found.sampled_at, found.unverified, found.events_dropped) == (minute, 4, 6)
        (keys,) = [check for check in jobs.health() if check.name == "keys"]
        assert keys.status == "warn"

    def test_the_questions_and_their_answers_are_as_many_whatever_is_stored(self, jobs, clock, monkeypatch):
        asked, inspection = [], jobs._parts.producer.inspection
        for verb in ("look", "list", "sessions", "get", "get_many", "counts", "queues", "queues_with_work"):
            monkeypatch.setattr(inspection, verb, _counting(getattr(inspection, verb), verb, asked))
        jobs.enqueue_many("send", range(3_000), queue="mail")
        jobs.enqueue_many("send", range(3_000), queue="web", delay="1d")
        clock.advance(timedelta(hours=1))

        jobs.health()

        assert sorted(verb for verb, _ in asked) == ["list", "list", "list", "look", "sessions"]
        assert sum(number for verb, number in asked if verb == "list") == 200

    def test_at_most_three_late_queues_and_three_parked_names_are_explained(self, jobs, clock, monkeypatch):
        explained = []
        monkeypatch.setattr(
            jobs._operators.explainer, "why", lambda job_id: explained.append(job_id) or Reason(code="busy", text="")
        )
        description = WorkerDescription(queues=("q*",), started=NOW).encoded()
        for number in range(9):
            jobs.enqueue(f"parked-{number}", queue=f"p{number}")
            jobs.enqueue("send", queue=f"q{number}")
        jobs.drain(*(f"p{number}" for number in range(9)))
        clock.advance(timedelta(hours=1))
        jobs.backend.open_session(Session(owner="w", description=description))

        assert {check.name for check in jobs.health() if check.status == "fail"} == {"served", "late"}
        assert len(explained) == 6

    def test_a_pause_that_may_be_forgotten_names_who_made_it(self, jobs, clock):
        jobs.pause("mail", by="ann@web-1", reason="the provider is down")
        clock.advance(timedelta(days=2))

        (check,) = [check for check in jobs.health() if check.name == "paused"]

        assert check.status == "warn"
        assert check.detail.endswith(' by ann@web-1 ("the provider is down")')

    def test_a_broker_that_shows_nothing_has_its_own_checks(self, monkeypatch, jobs):
        def refuse(*_):
            raise Unsupported("it cannot show what waits in it")

        monkeypatch.setattr(jobs._parts.producer.inspection, "look", refuse)

        assert jobs.health() == []


def _counting(call, verb, asked):
    def counted(*args, **named):
        answer = call(*args, **named)
        asked.append((verb, len(answer) if isinstance(answer, list) else 1))
        return answer

    return counted


@pytest.mark.promise("S159")
class TestStories:
    """What a command cannot tell here: a check does not pass, what it says is done, and it passes."""

    @pytest.fixture
    def process(self, clock, tmp_path):
        """Programs with one store between them: ``process(signing_keys=…)``."""
        with ExitStack() as opened:
            url = f"sqlite:///{tmp_path}/jobs.db?durability=relaxed"
            yield lambda **settings: opened.enter_context(Onward(url, clock=clock, **settings))

    def test_clock(self, newest_redis, tmp_path, monkeypatch):
        """The server has a clock of its own.  That of this host is ten seconds ahead, until `chronyc` sets it."""
        host_clock = HostClock(tmp_path / "ahead")
        programs = {"sudo": 'exec "$@"', "chronyc": f'test "$1" = makestep && echo 0 > "{host_clock.ahead}"'}
        for name, script in programs.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        with Onward(redis_servers.emptied(newest_redis)) as jobs:
            monkeypatch.setattr(jobs._parts.operators.health, "_clock", host_clock)
            check = checked(jobs, "clock")
            assert (check.status, check.detail.endswith("ahead of the store's")) == ("warn", True)

            subprocess.run(shlex.split(check.fix), check=True)

            assert checked(jobs, "clock").status == "ok"

    def test_keys_that_programs_lack_which_enqueue(self, process, clock):
        keys = "k1:" + "0123456789abcdef" * 3
        worker, lacks, has = process(signing_keys=keys), process(), process(signing_keys=keys)
        worker.job(name="work")(lambda: None)
        lacks.enqueue("work")
        work(worker)
        check = checked(worker, "keys")
        assert (check.status, check.fix.partition(";")[0]) == ("warn", "give the programs that enqueue them the key")

        clock.advance(timedelta(minutes=31))
        has.enqueue("work")
        work(worker)

        assert checked(worker, "keys").status == "ok"

    def test_subscribers_that_are_too_slow(self, process, clock, monkeypatch):
        monkeypatch.setattr(events, "_BACKLOG", 1)
        jobs, may_return = process(), threading.Event()
        jobs.on(JobCompleted, lambda _: may_return.wait(60))
        job = jobs.job(name="work")(lambda: None)
        job.enqueue_many([()] * 5)
        work(jobs)
        check = checked(jobs, "samples")
        assert (check.status, check.about) == ("warn", ("events",))
        assert check.fix.startswith("let these functions return at once")

        may_return.set()
        assert jobs.telemetry.flush()
        clock.advance(timedelta(minutes=31))
        job.enqueue()
        work(jobs)

        assert checked(jobs, "samples").status == "ok"


class HostClock:
    """The clock of a host, as many seconds ahead as a file says."""

    def __init__(self, ahead):
        self.ahead = ahead
        ahead.write_text("10")

    def micros(self):
        return time.time_ns() // 1000 + int(self.ahead.read_text()) * SECOND


def checked(jobs, name):
    (check,) = [check for check in jobs.health(store=False) if check.name == name]
    return check


def work(jobs):
    """Run what is due, and send a sample as a worker does."""
    jobs.drain()
    jobs._parts.engine._samples.finish()


class TestTelling:
    """Every store: one process a minute compares with what another one has stored."""

    @pytest.fixture
    def minute(self, clock):
        return lambda: clock.advance(60)

    @pytest.fixture
    def fleet(self, open_store, clock, monkeypatch, request):
        """Two processes on one store, and what each of them was told."""
        backend = open_store(getattr(request, "param", "memory"))
        heard, apps = [], []
        for number in range(2):
            app = Onward("memory://", clock=clock)
            monkeypatch.setattr(app._parts.operators.health, "_backend", backend)
            monkeypatch.setattr(app._parts.operators.health, "_inspection", backend)
            monkeypatch.setattr(app._parts.operators.health_teller, "_backend", backend)
            app.on(HealthChanged, lambda change, number=number: heard.append((number, change.check, change.status)))
            apps.append(app)
        yield backend, apps, heard
        for app in apps:
            app.close()

    @pytest.mark.parametrize("fleet", ["memory", "sqlite", "postgres", "mariadb", "redis"], indirect=True)
    def test_a_change_is_told_once_by_whichever_process_compares(self, fleet, minute, monkeypatch):
        _, (one, other), heard = fleet
        state = [Check(name="late", status="ok", detail="")]
        for app in (one, other):
            monkeypatch.setattr(app._parts.operators.health, "of_fleet", lambda: list(state))
            monkeypatch.setattr(app._parts.operators.health, "of_store", list)

        def compare(app):
            app._parts.operators.health_teller.compare()
            assert app.telemetry.flush()
            minute()
            return [heard.pop() for _ in list(heard)]

        assert compare(one) == []
        state[:] = [Check(name="late", status="fail", detail="mail", about=("mail",))]
        assert compare(one) == [(0, "late", "fail")]
        assert compare(other) == []
        assert compare(one) == []
        state[:] = [Check(name="late", status="ok", detail="")]
        assert compare(other) == [(1, "late", "ok")]
        assert compare(one) == []

    def test_what_was_found_survives_the_merging_of_rows(self):
        results = (("late", "fail", ("mail",)),)
        before = Measured(minutes=0, checks=(("late", "warn", ()),))

        both = merged([(NOW, before), (NOW + MINUTE, Measured(minutes=0, checks=results)), (NOW + MINUTE, Measured())])

        assert Measured.decoded(both.encoded()).checks == results
        assert Measured.decoded(Measured().encoded()).checks is None

    def test_the_own_checks_of_a_store_are_made_every_ten_minutes_and_kept_between(self, clock, monkeypatch):
        with Onward("memory://", clock=clock) as jobs:
            asked = []
            space = Check(name="space", status="fail", detail="full")
            monkeypatch.setattr(jobs._parts.operators.health, "of_fleet", list)
            monkeypatch.setattr(jobs._parts.operators.health, "of_store", lambda: asked.append(1) or [space])
            told = []
            for _ in range(20):
                told += jobs._parts.operators.health_teller.compare()
                clock.advance(60)

        assert len(asked) == 2
        assert [(change.check, change.status) for change in told] == [("space", "fail")]

    def test_no_subscriber_no_question(self, monkeypatch):
        with Onward("memory://") as jobs:
            monkeypatch.setattr(jobs._parts.operators.health, "of_fleet", lambda: pytest.fail("it was asked"))
            jobs._parts.operators.health_teller.on_sampler()

    def test_what_goes_wrong_is_logged_once_and_harms_nothing(self, monkeypatch, caplog):
        with Onward("memory://") as jobs:
            jobs.on(HealthChanged, print)
            monkeypatch.setattr(jobs._parts.operators.health, "of_fleet", lambda: 1 / 0)
            for _ in range(3):
                jobs._parts.operators.health_teller._compare_quietly()

        assert [record.message.partition(":")[0] for record in caplog.records] == ["checks could not be compared"]

    def test_a_worker_that_is_the_sampler_tells(self):
        with Onward("memory://", lease_for=1.5) as jobs:
            heard = []
            jobs.on(HealthChanged, lambda change: heard.append((change.check, change.about)))
            jobs.enqueue("send", queue="orphans")
            with jobs.worker(queues=["mail"]):
                eventually(lambda: ("served", ("orphans",)) in heard)
