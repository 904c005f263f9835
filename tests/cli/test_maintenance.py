"""`onward reap`, `prune` and `health`."""

from datetime import UTC, datetime, timedelta

import pytest

from onward import Onward, State
from onward.backend import Check, Claim
from onward.testing import FakeClock


class TestReap:
    @pytest.fixture
    def lost(self, past):
        """A job that somebody took an hour ago and was not heard of since."""
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
        assert onward("prune", "--completed-before", before).out == "pruned 1 finished job\n"

    def test_or_an_instant(self, onward, completed):
        before = (datetime.now(UTC) - timedelta(days=1)).isoformat()

        assert onward("prune", "--completed-before", before).out == "pruned 2 finished jobs\n"


class TestHealth:
    def test_every_check_is_a_line(self, onward, jobs):
        ran = onward("health")

        assert ran.code == 0
        assert ran.out.splitlines()[0].split() == ["CHECK", "STATUS", "DETAIL"]
        assert "jobs.db" in ran.out
        assert {"file", "schema", "integrity"} < {line["name"] for line in onward("health", "--json").json}

    def test_a_check_that_fails_is_a_failure_and_a_warning_is_none(self, onward, jobs, monkeypatch):
        bad, warned = Check(name="space", status="fail", detail="full"), Check(name="log", status="warn", detail="long")

        monkeypatch.setattr(Onward, "health", lambda self: [warned])
        assert onward("health").code == 0

        monkeypatch.setattr(Onward, "health", lambda self: [warned, bad])
        assert onward("health").code == 1
