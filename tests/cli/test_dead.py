"""`onward dead`: what was given up is listed, shown, replayed and purged."""

import pytest

from onward import State


class TestList:
    def test_dead_jobs_come_with_their_last_error(self, onward, jobs, kill):
        jobs.enqueue("alive")
        first, second = kill("bank away", "bank closed")

        heading, *rows = onward("dead", "list").out.splitlines()

        assert heading.split() == ["ID", "JOB", "QUEUE", "DIED", "TRIES", "LAST", "ERROR"]
        assert [row.split()[0] for row in rows] == [first, second]
        assert rows[0].endswith("RuntimeError: bank away")

    def test_filters_and_pages(self, onward, kill):
        ids = kill("1", "2", "3", queue="mail")
        (other,) = kill("4", job="other")

        assert [line["id"] for line in onward("dead", "list", "--json", "--queue", "mail", "--limit", "2").json] == ids[
            :2
        ]
        assert [line["id"] for line in onward("dead", "list", "--json", "--after", ids[2]).json] == [other]
        assert [line["id"] for line in onward("dead", "list", "--json", "--job", "other", "--all").json] == [other]


class TestShow:
    def test_a_dead_job_is_shown(self, onward, kill):
        (job_id,) = kill("bank away")

        assert "RuntimeError: bank away" in onward("dead", "show", job_id).out

    def test_a_job_that_is_not_dead_is_none(self, onward, jobs):
        alive = jobs.enqueue("alive").id

        ran = onward("dead", "show", alive)

        assert ran.code == 6
        assert f"`onward job show {alive}`" in ran.err


class TestReplay:
    def test_named_jobs_live_again(self, onward, jobs, kill):
        first, second = kill("1", "2")

        ran = onward("dead", "replay", first)

        assert (ran.code, ran.out, ran.err) == (0, "replayed 1 dead job\n", "")
        assert (jobs.get(first).state, jobs.get(second).state) == (State.AVAILABLE, State.DISCARDED)

    def test_a_queue_or_a_job_name_or_a_number_chooses(self, onward, jobs, kill):
        kill("1", "2", queue="mail")
        kill("3", job="other")

        assert onward("dead", "replay", "--queue", "mail", "--limit", "1").out == "replayed 1 dead job\n"
        assert onward("dead", "replay", "--job", "other", "--json").json == [{"replayed": 1, "skipped": {}}]
        assert onward("dead", "replay", "--all").out == "replayed 1 dead job\n"
        assert jobs.counts()[State.DISCARDED] == 0

    def test_more_than_a_batch_is_replayed(self, onward, jobs, sql):
        job = jobs.job(name="welcome")(lambda: None)
        job.enqueue_many([()] * 1_100)
        jobs.backend.cancel([record.id for record in jobs.list(limit=2_000)], "to be dead")
        sql("UPDATE onward_finished SET state = 'discarded'")

        assert onward("dead", "replay", "--all").out == "replayed 1,100 dead jobs\n"
        assert jobs.counts()[State.AVAILABLE] == 1_100

    def test_what_is_skipped_comes_with_its_reason(self, onward, jobs, kill):
        (dead,) = kill("no")
        alive = jobs.enqueue("alive").id

        ran = onward("dead", "replay", dead, alive, "0" * 32)

        assert (ran.code, ran.out) == (1, "replayed 1 dead job\n")
        assert f"{alive} was skipped: not dead: available" in ran.err
        assert f"{'0' * 32} was skipped: no such job" in ran.err

    def test_a_key_that_another_job_holds_is_a_reason(self, onward, jobs):
        @jobs.job(name="once")
        def once(n: int):
            raise RuntimeError(n)

        dead = once.using(unique_key="k").enqueue(1).id
        jobs.drain()
        holder = once.using(unique_key="k").enqueue(2).id

        ran = onward("dead", "replay", "--all", "--json")

        assert ran.code == 6
        assert ran.json == [{"replayed": 0, "skipped": {dead: f"key held by {holder}"}}]

    def test_many_skipped_jobs_do_not_flood_the_screen(self, onward, jobs):
        jobs.counts()
        unknown = [f"{n:032x}" for n in range(30)]

        ran = onward("dead", "replay", *unknown)

        assert (ran.code, len(ran.err.splitlines())) == (6, 21)
        assert "10 more skipped" in ran.err

    def test_nothing_matched_is_exit_code_6(self, onward, jobs):
        ran = onward("dead", "replay", "--queue", "mail")

        assert (ran.code, ran.out) == (6, "replayed 0 dead jobs\n")


@pytest.mark.parametrize("verb", ["replay", "purge"])
class TestChoosing:
    def test_it_has_to_be_said_which(self, onward, jobs, kill, verb):
        kill("no")

        ran = onward("dead", verb)

        assert ran.code == 2
        assert "say which" in ran.err
        assert jobs.counts()[State.DISCARDED] == 1

    def test_ids_and_filters_exclude_each_other(self, onward, jobs, kill, verb):
        (dead,) = kill("no")

        assert onward("dead", verb, dead, "--queue", "default").code == 2
        assert jobs.counts()[State.DISCARDED] == 1


class TestPurge:
    def test_yes_purges(self, onward, jobs, kill):
        kill("1", "2", queue="mail")
        kill("3")

        ran = onward("dead", "purge", "--queue", "mail", "--yes")

        assert (ran.code, ran.out) == (0, "purged 2 dead jobs\n")
        assert jobs.counts()[State.DISCARDED] == 1

    def test_off_a_terminal_yes_has_to_be_said(self, onward, jobs, kill, type_in):
        kill("1", "2")
        type_in("2\n")

        ran = onward("dead", "purge", "--all")

        assert ran.code == 2
        assert "removes 2 dead jobs for good: add --yes" in ran.err
        assert "removes 1 dead job for good: add --yes" in onward("dead", "purge", "--limit", "1").err
        assert jobs.counts()[State.DISCARDED] == 2

    def test_on_a_terminal_the_number_has_to_be_typed(self, terminal, jobs, kill):
        kill("1", "2")

        ran = terminal("dead", "purge", "--all", typed="2\n")

        assert ran.code == 0
        assert "Type 2 to go on" in ran.out
        assert "purged 2 dead jobs" in ran.out
        assert jobs.counts()[State.DISCARDED] == 0

    def test_only_those_that_died_long_ago(self, onward, jobs, past, kill):
        @past.job
        def broken():
            raise RuntimeError("an hour ago")

        old = broken.enqueue().id
        past.drain()
        (young,) = kill("now")

        ran = onward("dead", "purge", "--older-than", "30m", "--yes")

        assert (ran.code, ran.out) == (0, "purged 1 dead job\n")
        assert jobs.get(old) is None
        assert jobs.get(young) is not None

    def test_a_dry_run_says_what_would_go_and_removes_nothing(self, onward, jobs, kill):
        kill("1", "2", queue="mail")

        ran = onward("dead", "purge", "--all", "--dry-run")

        assert ran.code == 0
        assert ran.out.splitlines()[1].split() == ["mail", "discarded", "2"]
        assert ran.out.endswith("would remove 2 dead jobs; nothing was removed\n")
        assert jobs.counts()["discarded"] == 2
        assert onward("dead", "purge", "--all", "--dry-run", "--json").json[0]["would_remove"] == 2

    def test_any_other_answer_purges_nothing(self, terminal, jobs, kill):
        kill("1", "2")

        ran = terminal("dead", "purge", "--all", typed="yes\n")

        assert ran.code == 1
        assert "nothing was removed" in ran.out
        assert jobs.counts()[State.DISCARDED] == 2

    def test_nothing_matched_is_exit_code_6_and_asks_nothing(self, onward, jobs):
        assert onward("dead", "purge", "--all").code == 6
