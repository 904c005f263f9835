"""`onward reap` and `prune`."""

from datetime import UTC, datetime, timedelta

import pytest

from onward import Onward, State
from onward.backend import Claim
from onward.testing import FakeClock


class TestReap:
    @pytest.fixture
    def lost(self, past):
        """A job that a worker took an hour ago and has not renewed since."""
        job_id = past.enqueue("welcome", queue="mail").id
        past.backend.claim(Claim(queues=("mail",), owner="doomed"))
        return job_id

    def test_what_was_given_back_is_listed(self, onward, lost, jobs):
        ran = onward("reap")

        assert ran.code == 0
        assert ran.out.splitlines()[1].split()[:4] == [lost, "retryable", "welcome", "mail"]
        assert jobs.get(lost).crashes == 1

    def test_for_machines_too(self, onward, lost):
        (line,) = onward("reap", "--json").json

        assert (line["id"], line["to"], line["crashed"], line["cause"]) == (
            lost,
            "retryable",
            True,
            "its session expired",
        )

    def test_one_queue_can_be_named(self, onward, lost, jobs):
        other = onward("reap", "news")
        ran = onward("reap", "mail")

        assert (other.code, other.out) == (0, "")
        assert "every running job of queue news belongs to a live worker" in other.err
        assert ran.out.splitlines()[1].split()[0] == lost

    def test_nothing_to_do_is_done(self, onward, jobs):
        ran = onward("reap")

        assert (ran.code, ran.out) == (0, "")
        assert "nothing to give back" in ran.err


class TestPrune:
    @pytest.fixture
    def completed(self, url):
        """Jobs that completed 10, 3 and 0 days ago."""
        for days in (10, 3, 0):
            with Onward(url, clock=FakeClock(datetime.now(UTC) - timedelta(days=days))) as jobs:
                jobs.job(name="add")(lambda: 3).enqueue()
                jobs.drain()

    def test_retention_decides(self, onward, completed, jobs):
        assert onward("prune").out == "pruned 2 finished jobs\n"
        assert jobs.counts()[State.COMPLETED] == 1

    def test_retention_may_come_from_the_configuration(self, onward, completed, tmp_path):
        (tmp_path / "onward.toml").write_text('[retention]\ncompleted = "5d"\n')

        assert onward("prune", "--json").json == [{"removed": 1}]

    @pytest.mark.parametrize("before", ["5d", "5d ago", "432000"])
    def test_or_a_length_of_time(self, onward, completed, before):
        assert onward("prune", "--older-than", before, "--yes").out == "pruned 1 finished job\n"

    def test_or_an_instant(self, onward, completed):
        before = (datetime.now(UTC) - timedelta(days=1)).isoformat()

        assert onward("prune", "--older-than", before, "--yes").out == "pruned 2 finished jobs\n"

    def test_an_age_is_asked_about_first(self, onward, terminal, completed, jobs):
        ran = onward("prune", "--older-than", "5d")

        assert ran.code == 2
        assert "1 finished job for good: add --yes" in ran.err
        assert "nothing was removed" in terminal("prune", "--older-than", "5d", typed="no\n").out
        assert jobs.counts()[State.COMPLETED] == 3
        assert "pruned 1 finished job" in terminal("prune", "--older-than", "5d", typed="1\n").out

    def test_a_dry_run_says_by_queue_and_state_what_would_go(self, onward, completed, jobs):
        ran = onward("prune", "--older-than", "1d", "--dry-run")

        assert ran.code == 0
        header, line, total = ran.out.splitlines()
        assert (header.split(), line.split()) == (["QUEUE", "STATE", "JOBS"], ["default", "completed", "2"])
        assert total == "would remove 2 finished jobs; nothing was removed"
        assert jobs.counts()[State.COMPLETED] == 3

    def test_a_dry_run_for_machines(self, onward, completed):
        assert onward("prune", "--dry-run", "--json").json == [
            {"removed": 0, "would_remove": 2, "by_queue": [{"queue": "default", "state": "completed", "jobs": 2}]}
        ]

    def test_a_dry_run_of_many_queues_tells_of_the_largest(self, onward, url):
        with Onward(url, clock=FakeClock(datetime.now(UTC) - timedelta(days=10))) as past:
            job = past.job(name="add")(lambda: 3)
            for number in range(30):
                job.using(queue=f"tenant-{number}").enqueue_many([()] * (number + 1))
            past.drain()

        ran = onward("prune", "--dry-run")

        assert ran.out.splitlines()[1].split() == ["tenant-29", "completed", "30"]
        assert len(ran.out.splitlines()) == 22
        assert "and 10 more" in ran.err
        assert ran.out.endswith("would remove 465 finished jobs; nothing was removed\n")

    def test_only_one_queue_or_state(self, onward, completed, jobs):
        assert onward("prune", "--queue", "mail").out == "pruned 0 finished jobs\n"
        assert onward("prune", "--state", "cancelled").out == "pruned 0 finished jobs\n"
        assert onward("prune", "--older-than", "1d", "--state", "discarded", "--yes").out == "pruned 0 finished jobs\n"
        assert onward("prune", "--queue", "default", "--state", "completed").out == "pruned 2 finished jobs\n"

    def test_a_live_state_is_refused(self, onward, jobs):
        ran = onward("prune", "--state", "available")

        assert ran.code == 2
        assert "jobs.cancel" in ran.err
