"""Groups of dead jobs as a filter, in a list of one queue or of the last hours, and one of them in full."""

import pytest

from onward import OptionError, State
from onward.errors import JobNotFound
from tests.application.every_store import redis_server, store, url  # noqa: F401


@pytest.fixture
def dead(jobs, clock):
    """Let four mails die of a time-out and two of a missing user; and letters, a day later, of the same missing user."""

    def missing() -> None:
        raise KeyError("no such user")

    @jobs.job(queue="mail")
    def send(user_id: int, password: str = "hunter2") -> None:
        if user_id >= 4:
            missing()
        raise TimeoutError("slow")

    @jobs.job(queue="mail")
    def post(user_id: int) -> None:
        raise KeyError(user_id)

    mails = [send.enqueue(user).id for user in range(6)]
    jobs.drain("mail")
    clock.advance(86_400)
    letters = [post.using(queue="letters").enqueue(user).id for user in range(3)]
    jobs.drain("letters")
    return {"slow": mails[:4], "missing": mails[4:], "letters": letters}


def group_of(jobs, job_id):
    return jobs.get(job_id).errors[-1].fingerprint


def found(jobs, text):
    return sorted(record.id for record in jobs.find(text).jobs)


class TestFilter:
    def test_a_group_is_found_by_its_name_or_the_beginning_of_it(self, jobs, dead):
        slow = group_of(jobs, dead["slow"][0])

        assert found(jobs, f"group:{slow}") == dead["slow"]
        assert found(jobs, f"group:{slow[:8]}") == dead["slow"]
        assert found(jobs, f"group:{slow} job:send arg.user_id:2") == [dead["slow"][2]]
        assert found(jobs, f"group:{slow} job:post") == []
        assert found(jobs, "group:ffffffffffff") == []

    def test_it_is_about_dead_jobs(self, jobs, dead):
        slow = group_of(jobs, dead["slow"][0])

        with pytest.raises(OptionError, match="group: is about dead jobs"):
            jobs.find(f"group:{slow} state:completed")

    def test_a_name_of_several_is_refused_with_all_of_them(self, jobs, claim_elsewhere):
        for job in ("one", "other"):
            jobs.enqueue(job)
            (lease,) = claim_elsewhere(jobs, owner=job)
            jobs.backend.abandon(lease, "dead without a run")
        (group,) = {each.fingerprint for each in jobs.dead_letters.groups()}

        with pytest.raises(OptionError, match=f"write one of job:one group:{group}, job:other group:{group}"):
            jobs.find(f"group:{group}")
        assert len(found(jobs, f"group:{group} job:one")) == 1

    def test_a_bulk_act_changes_one_group(self, jobs, dead):
        list(jobs.bulk("replay", f"group:{group_of(jobs, dead['slow'][0])}"))

        assert {jobs.get(each).state for each in dead["slow"]} == {State.AVAILABLE}
        assert {jobs.get(each).state for each in (*dead["missing"], *dead["letters"])} == {State.DISCARDED}

    def test_a_canary_that_is_named_a_group_replays_that(self, jobs, dead):
        going = jobs.dead_letters.canary(f"group:{group_of(jobs, dead['missing'][0])}")

        assert next(going).happened == "replayed"
        going.close()
        assert jobs.get(dead["missing"][0]).state is State.AVAILABLE
        assert {jobs.get(each).state for each in (*dead["slow"], *dead["letters"])} == {State.DISCARDED}

    def test_a_group_beyond_those_that_a_look_shows_is_found_by_its_job_and_its_whole_name(self, jobs, claim_elsewhere):
        ids = [jobs.enqueue(f"job-{number:03}").id for number in range(102)]
        for lease in claim_elsewhere(jobs, limit=200):
            jobs.backend.abandon(lease, "dead without a run")
        (group,) = {each.fingerprint for each in jobs.dead_letters.groups()}

        assert found(jobs, f"group:{group} job:job-101") == [ids[101]]
        assert found(jobs, f"group:{group} job:other") == []
        assert jobs.why(ids[101]).fix.endswith(f"`onward dead canary --job job-101 --group {group}`")


class TestWhy:
    def test_a_dead_job_tells_of_those_that_died_so_and_advises_to_try_one_of_them_first(self, jobs, dead):
        slow = group_of(jobs, dead["slow"][0])

        reason = jobs.why(dead["slow"][1])

        died = jobs.get(dead["slow"][0]).finished_at
        assert reason.text.endswith(f"It is one of 4 that died so, since {died:%Y-%m-%d %H:%M:%S}Z.")
        assert reason.fix == f"fix what it failed on, then `onward dead canary --job send --group {slow}`"
        assert (reason.facts["group"], reason.facts["like_it"], reason.facts["or_more"]) == (slow, 4, False)

    def test_the_only_one_of_its_group_speaks_of_no_others(self, jobs, claim_elsewhere):
        job = jobs.enqueue("alone")
        (lease,) = claim_elsewhere(jobs)
        jobs.backend.abandon(lease, "dead without a run")

        reason = jobs.why(job.id)

        assert "that died so" not in reason.text
        assert reason.fix.endswith("`onward dead canary --job alone --group unexplained`")


class TestGroups:
    def test_of_one_queue(self, jobs, dead):
        (only,) = jobs.dead_letters.groups(queues="letters")

        assert (only.job, only.count, only.first_id, only.last_id) == (
            "post",
            3,
            dead["letters"][0],
            dead["letters"][2],
        )
        assert jobs.dead_letters.groups(queues="nothing") == []

    def test_since_then(self, jobs, dead):
        assert [group.job for group in jobs.dead_letters.groups(since="1h")] == ["post"]
        assert [group.count for group in jobs.dead_letters.groups(since="2d")] == [4, 3, 2]


class TestDetail:
    def test_it_has_the_newest_traceback_hosts_builds_and_three_samples(self, jobs, dead):
        detail = jobs.dead_letters.group(group_of(jobs, dead["slow"][0]))

        assert (detail.job, detail.kind, detail.message) == ("send", "TimeoutError", "slow")
        assert "raise TimeoutError" in detail.traceback
        assert list(detail.hosts.values()) == [4]
        assert len(detail.builds) == 1
        assert [record.payload for record in detail.samples] == [{"user_id": user} for user in (3, 2, 1)]

    def test_secrets_are_masked(self, jobs):
        @jobs.job
        def pay(password: str) -> None:
            raise ValueError("no")

        dead = pay.enqueue("hunter2").id
        jobs.drain()

        assert "hunter2" not in repr(jobs.dead_letters.group(group_of(jobs, dead)))

    def test_no_such_group_is_none(self, jobs, dead):
        with pytest.raises(JobNotFound, match="`onward dead groups`"):
            jobs.dead_letters.group("ffffffffffff")
