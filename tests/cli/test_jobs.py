"""`onward job`: looking at jobs and steering them."""

from contextlib import suppress

import pytest

from onward import JobContext, JobTimeout, Onward, State
from onward.backend import Claim
from onward.cli.exits import Exit
from onward.cli.ids import find

HIDDEN = "name the application that defines this job with --app to see its arguments, with secrets masked"
TILL = """
from onward import Onward, Secret

jobs = Onward()

@jobs.job
def pay(user: int, card: Secret[str]) -> None: ...
"""


def enqueue(jobs, count, *, job="welcome", **options):
    return [jobs.enqueue(job, {"n": n}, **options).id for n in range(count)]


class TestList:
    def test_jobs_come_in_the_order_they_were_enqueued(self, onward, jobs):
        ids = enqueue(jobs, 3)

        assert [line["id"] for line in onward("job", "list", "--json").json] == ids
        assert [line["id"] for line in onward("job", "list", "--json", "--newest").json] == ids[::-1]

    def test_people_see_columns(self, onward, jobs):
        (job_id,) = enqueue(jobs, 1, queue="mail", delay="2h")

        heading, row = onward("job", "list").out.splitlines()

        assert heading.split() == ["ID", "STATE", "JOB", "QUEUE", "WHEN", "TRIES", "PRIORITY", "ENQUEUED"]
        assert row.split()[:7] == [job_id, "scheduled", "welcome", "mail", "in", "119", "m"]

    def test_machines_see_every_field_and_iso_times(self, onward, jobs):
        enqueue(jobs, 1, meta={"tenant": 7})

        (line,) = onward("job", "list", "--json").json

        assert line["state"] == "available"
        assert line["meta"] == {"tenant": 7}
        assert line["enqueued_at"].endswith("Z")
        assert "raw" not in line

    def test_filters_narrow_it(self, onward, jobs):
        enqueue(jobs, 1)
        (mail,) = enqueue(jobs, 1, queue="mail")
        (other,) = enqueue(jobs, 1, job="other")
        (later,) = enqueue(jobs, 1, delay="1h")

        def listed(*words):
            return [line["id"] for line in onward("job", "list", "--json", *words).json]

        assert listed("--queue", "mail") == [mail]
        assert listed("--job", "other") == [other]
        assert listed("--state", "scheduled") == [later]
        assert len(listed("--state", "scheduled", "--state", "available")) == 4

    def test_a_full_page_says_how_to_see_the_next(self, onward, jobs):
        ids = enqueue(jobs, 5)

        first = onward("job", "list", "--json", "--limit", "3")
        second = onward("job", "list", "--json", "--limit", "3", "--after", ids[2])

        assert f"--after {ids[2]}" in first.err
        assert [line["id"] for line in second.json] == ids[3:]
        assert second.err == ""

    def test_all_walks_every_page(self, onward, jobs):
        job = jobs.job(name="welcome")(lambda: None)
        job.enqueue_many([()] * 1_203)

        ran = onward("job", "list", "--all")

        assert ran.err == ""
        assert len(ran.out.splitlines()) == 1_203 + 1
        assert ran.out.count("STATE") == 1

    def test_an_empty_list_is_no_failure(self, onward, jobs):
        ran = onward("job", "list")

        assert (ran.code, ran.out, ran.err) == (0, "", "no job matches\n")

    def test_an_unknown_state_is_answered_with_the_nearest(self, onward, jobs):
        ran = onward("job", "list", "--state", "discardet")

        assert ran.code == 2
        assert "did you mean 'discarded'?" in ran.err


class TestShow:
    def test_the_timeline_of_a_dead_job(self, onward, kill):
        (job_id,) = kill("the bank does not answer")

        shown = onward("job", "show", job_id).out

        assert shown.startswith("fail  discarded\n")
        for part in (
            job_id,
            "enqueued",
            "in typed",
            "gave up after 1 attempt",
        ):
            assert part in shown
        assert "run 1 failed" in shown
        assert "RuntimeError: the bank does not answer" in shown

    def test_arguments_are_hidden_where_nothing_tells_which_of_them_are_secret(self, onward, shell, jobs, tmp_path):
        (tmp_path / "till.py").write_text(TILL)
        paid = jobs.enqueue("pay", {"user": 7, "card": "4242-4242"}).id  # by a program that knows of no secret
        other = jobs.enqueue("other", {"card": "4242-4242"}).id
        bare = jobs.enqueue("other").id

        for words in (["show", paid], ["show", paid, "--json"], ["list"], ["list", "--json"]):
            for told in (onward("job", *words), shell("--app", "till:jobs", "job", *words)):
                assert told.code == 0
                assert "4242" not in told.out
        assert f"payload   hidden: {HIDDEN}" in onward("job", "show", paid).out
        (line,) = onward("job", "show", paid, "--json").json
        assert (line["payload"], line["hidden"]) == (None, HIDDEN)
        assert 'payload   {"user":7,"card":"***"}' in shell("--app", "till:jobs", "job", "show", paid).out
        assert f"payload   hidden: {HIDDEN}" in shell("--app", "till:jobs", "job", "show", other).out
        assert "payload   {}" in onward("job", "show", bare).out

    def test_a_time_out_that_was_swallowed_is_told_of_the_run_that_succeeded(self, onward, jobs):
        @jobs.job(timeout=0.05)
        def stubborn():
            with suppress(JobTimeout):
                while True:
                    pass

        handle = stubborn.enqueue()
        jobs.drain()

        shown = onward("job", "show", handle.id).out
        assert "onward.errors.JobTimeout: the job ran past its time-out of 0.05 s" in shown
        assert "run 1 succeeded after" in shown
        assert "failed" not in shown

    def test_the_result_of_a_completed_job(self, onward, jobs):
        handle = jobs.job(name="add")(lambda: {"sum": 3}).enqueue()
        jobs.drain()

        assert 'result    {"sum":3}' in onward("job", "show", handle.id).out
        assert onward("job", "show", handle.id, "--json").json[0]["result"] == {"sum": 3}

    def test_a_running_job_shows_its_progress_and_that_it_was_asked_to_stop(self, onward, jobs):
        (job_id,) = enqueue(jobs, 1)
        (lease,) = jobs.backend.claim(Claim(queues=("default",), owner="elsewhere"))
        jobs.backend.progress(lease, b'{"fraction": 0.5, "note": "halfway"}')
        jobs.cancel(job_id)

        shown = onward("job", "show", job_id).out

        assert "progress  50%, halfway" in shown
        assert "run 1 started" in shown
        assert "asked to stop" in shown

    def test_a_job_that_waits_for_a_key_tells_of_no_run(self, onward, jobs):
        rebuild = jobs.job(name="rebuild", single_instance=True)(lambda: None)
        rebuild.enqueue_many([(), ()])
        jobs.backend.claim(Claim(queues=("default",), owner="elsewhere"))
        jobs.process_once()
        (waiter,) = jobs.list(state="scheduled")

        shown = onward("job", "show", waiter.id).out

        assert "it did not run: another job holds its key or single instance (1 time in a row)" in shown
        assert "run started" not in shown

    def test_an_unknown_job_tells_since_when_it_is_parked(self, onward, jobs):
        handle = jobs.enqueue("unknown")
        jobs.process_once()

        shown = onward("job", "show", handle.id).out

        assert "it did not run: parked since" in shown
        assert "run started" not in shown

    def test_a_job_whose_key_was_done_tells_of_no_run(self, onward, jobs):
        charge = jobs.job(name="charge")(lambda: None).using(idempotency_key="k")
        charge.enqueue_many([(), ()])
        jobs.drain()
        (first, second) = jobs.list(state="completed")

        shown = onward("job", "show", second.id).out

        assert f"by job {first.id}" in shown
        assert "run started" not in shown
        assert "the run started" in onward("job", "show", first.id).out

    def test_a_job_that_waited_and_then_crashed_tells_of_the_run(self, onward, jobs):
        rebuild = jobs.job(name="rebuild", single_instance=True)(lambda: None)
        rebuild.enqueue_many([(), ()])
        (held,) = jobs.backend.claim(Claim(queues=("default",), owner="elsewhere"))
        jobs.process_once()
        jobs.backend.ack(held)
        jobs.backend.claim(Claim(queues=("default",), owner="dead"))
        jobs.backend.reap(owner="dead")
        (crashed,) = jobs.list(state="retryable")

        assert "the run started" in onward("job", "show", crashed.id).out

    def test_a_job_that_cannot_be_read_is_shown_with_the_reason(self, onward, jobs, sql):
        (job_id,) = enqueue(jobs, 1)
        sql("UPDATE onward_jobs SET sealed = ?", b"onward/9 - -\n{}")

        assert "unreadable: envelope version 9 is newer than 1" in onward("job", "show", job_id).out
        (line,) = onward("job", "show", job_id, "--json").json
        assert "version 9" in line["unreadable"]
        assert line["raw"]

    def test_a_tombstone_is_called_one(self, onward, url):
        with Onward(url, retention={"completed": 0}) as jobs:
            handle = jobs.job(name="add")(lambda: 3).enqueue()
            jobs.drain()

        assert "only a tombstone is left" in onward("job", "show", handle.id).out


class TestIds:
    def test_the_beginning_of_an_id_will_do(self, onward, jobs):
        (job_id,) = enqueue(jobs, 1)

        assert onward("job", "show", job_id[:8], "--json").json[0]["id"] == job_id
        assert onward("job", "show", job_id[:31].upper(), "--json").json[0]["id"] == job_id

    def test_an_id_may_be_written_as_a_uuid(self, onward, jobs):
        (job_id,) = enqueue(jobs, 1)
        dashed = "-".join([job_id[:8], job_id[8:12], job_id[12:16], job_id[16:20], job_id[20:]])

        assert onward("job", "show", dashed).code == 0

    def test_it_is_found_among_finished_jobs_and_between_others(self, past, clock, onward, jobs):
        (old,) = enqueue(past, 1)
        clock.advance(300)
        (middle,) = enqueue(past, 1)
        clock.advance(300)
        enqueue(past, 1)
        past.cancel(middle)

        assert find(jobs, middle[:9]).id == middle
        assert find(jobs, old[:9]).id == old

    def test_a_beginning_of_several_ids_is_an_error_that_names_them(self, onward, past):
        ids = enqueue(past, 7)

        ran = onward("job", "cancel", ids[6], ids[0][:8])

        assert ran.code == 2
        assert all(job_id in ran.err for job_id in ids[:5])
        assert "…" in ran.err
        assert past.counts()[State.CANCELLED] == 0

    def test_a_few_characters_are_too_few(self, onward, jobs):
        (job_id,) = enqueue(jobs, 1)

        ran = onward("job", "show", job_id[:7])

        assert ran.code == 2
        assert "8 characters" in ran.err

    @pytest.mark.parametrize("unknown", ["0" * 32, "0" * 8, "f" * 32, "f" * 8, "no-such-job", "'; --", "é" * 9])
    def test_an_unknown_id_is_nothing(self, onward, jobs, unknown):
        enqueue(jobs, 1)

        ran = onward("job", "show", unknown)

        assert (ran.code, ran.out) == (6, "")
        assert f"there is no job {unknown}" in ran.err


class TestRetry:
    def test_a_waiting_job_becomes_due_and_a_dead_one_lives_again(self, onward, jobs, kill):
        (later,) = enqueue(jobs, 1, delay="1h", queue="mail")
        (dead,) = kill("no")

        ran = onward("job", "retry", later, dead)

        assert ran.code == 0
        assert ran.out.splitlines() == [f"{later}  due now", f"{dead}  due now"]
        assert {jobs.get(each).state for each in (later, dead)} == {State.AVAILABLE}

    def test_what_cannot_be_retried_says_why_and_the_others_are(self, onward, jobs):
        (due,) = enqueue(jobs, 1)
        (later,) = enqueue(jobs, 1, delay="1h")

        ran = onward("job", "retry", due, "0" * 32, later)

        assert ran.code == 1
        assert ran.out == f"{later}  due now\n"
        assert "it is already due" in ran.err
        assert "there is no job" in ran.err

    def test_machines_get_a_line_for_each(self, onward, jobs):
        (due,) = enqueue(jobs, 1)

        ran = onward("job", "retry", due, "--json")

        assert ran.code == 6
        assert ran.json == [{"id": due, "done": False, "detail": "it is already due; a worker will take it"}]


class TestCancel:
    def test_a_waiting_job_is_cancelled_with_the_reason(self, onward, jobs):
        (job_id,) = enqueue(jobs, 1)

        ran = onward("job", "cancel", job_id, "--reason", "wrong customer")

        assert (ran.code, ran.out) == (0, f"{job_id}  cancelled\n")
        assert jobs.get(job_id).reason == "wrong customer"

    def test_a_running_job_is_asked_to_stop(self, onward, jobs):
        (job_id,) = enqueue(jobs, 1)
        jobs.backend.claim(Claim(queues=("default",), owner="elsewhere"))

        ran = onward("job", "cancel", job_id)

        assert ran.code == 0
        assert "asked to stop" in ran.out
        assert jobs.get(job_id).cancel_requested

    def test_there_is_nothing_to_cancel_in_a_finished_job(self, onward, kill):
        (dead,) = kill("no")

        ran = onward("job", "cancel", dead)

        assert ran.code == 6
        assert "it is discarded" in ran.err


class TestPurge:
    @pytest.fixture
    def finished(self, jobs, kill):
        """Two completed jobs, a cancelled one, a dead one, and one that waits."""
        jobs.job(name="done")(lambda: None).enqueue_many([(), ()])
        jobs.drain()
        (cancelled,) = enqueue(jobs, 1)
        jobs.cancel(cancelled)
        kill("no")
        enqueue(jobs, 1, job="waits")

    @pytest.fixture
    def left(self, jobs):
        return lambda: sorted(record.state for record in jobs.list())

    def test_a_filter_removes_finished_jobs_of_the_states_that_it_names(self, onward, finished, left):
        ran = onward("job", "purge", "--filter", "state:completed,cancelled", "--yes")

        assert (ran.code, ran.out) == (0, "purged 3 jobs\n")
        assert left() == ["available", "discarded"]

    def test_without_a_state_it_removes_the_dead(self, onward, finished, left):
        assert onward("job", "purge", "--filter", "queue:default", "--yes", "--json").json[-1]["purged"] == 1
        assert left() == ["available", "cancelled", "completed", "completed"]

    def test_the_number_has_to_be_typed(self, onward, terminal, finished, left):
        assert onward("job", "purge", "--filter", "state:completed").code == 2
        assert "removes 2 jobs for good: add --yes" in onward("job", "purge", "--filter", "state:completed").err
        assert terminal("job", "purge", "--filter", "state:completed", typed="yes\n").code == 1
        assert len(left()) == 5

        ran = terminal("job", "purge", "--filter", "state:completed", typed="2\n")

        assert ran.code == 0
        assert "purged 2 jobs" in ran.out
        assert left() == ["available", "cancelled", "discarded"]

    def test_a_dry_run_counts_and_removes_nothing(self, onward, finished, left):
        ran = onward("job", "purge", "--filter", "state:completed", "--dry-run")

        assert ran.code == 0
        assert ran.out.splitlines()[-1] == "would remove 2 jobs; nothing was removed"
        assert len(left()) == 5

    def test_what_waits_or_runs_cannot_be_purged(self, onward, finished, left):
        ran = onward("job", "purge", "--filter", "state:available", "--yes")

        assert ran.code == 2
        assert "purge changes jobs that are cancelled, completed, discarded, not those that are available" in ran.err
        assert onward("job", "purge", "--yes").code == 2
        assert onward("job", "purge", "--filter", "job:nothing", "--yes").code == 6
        assert len(left()) == 5


class TestSignal:
    def waiting(self, jobs):
        @jobs.job
        def order(ctx: JobContext) -> object:
            ctx.step("charge", int)
            return ctx.wait_for("approved", timeout="1d")

        handle = order.enqueue()
        jobs.drain()
        return handle

    def test_it_tells_a_job_what_it_waits_for(self, onward, jobs):
        handle = self.waiting(jobs)

        assert (
            onward("job", "signal", handle.id, "approved", '{"by": "Ann"}').out == f"{handle.id}  was told approved\n"
        )
        jobs.drain()
        assert handle.result() == {"by": "Ann"}

    def test_the_first_value_stays_and_again_replaces_it(self, onward, jobs):
        handle = self.waiting(jobs)
        onward("job", "signal", handle.id, "approved")
        second = onward("job", "signal", handle.id, "approved", "2")
        third = onward("job", "signal", handle.id, "approved", "3", "--again", "--json")

        assert (second.code, "--again replaces the value" in second.err) == (Exit.NOTHING, True)
        assert third.json == [{"id": handle.id, "signal": "approved", "told": True}]
        jobs.drain()
        assert handle.result() == 3

    def test_what_is_no_json_is_refused(self, onward, jobs):
        handle = self.waiting(jobs)
        refused = onward("job", "signal", handle.id, "approved", "yes")

        assert refused.code == Exit.USAGE
        assert "'yes' is no JSON" in refused.err

    def test_a_job_that_is_over_is_told_nothing(self, onward, jobs):
        handle = self.waiting(jobs)
        jobs.cancel(handle.id)
        refused = onward("job", "signal", handle.id, "approved")

        assert (refused.code, "it is cancelled" in refused.err) == (Exit.NOTHING, True)

    def test_show_says_what_is_done_and_what_it_waits_for(self, onward, jobs):
        handle = self.waiting(jobs)
        jobs.signal(handle.id, "other")

        shown = onward("job", "show", handle.id).out
        assert "waits for signal 'approved'" in shown
        for part in ("step 'charge' is done", "wait for 'approved' began", "signal 'other' came"):
            assert part in shown
        (line,) = onward("job", "show", handle.id, "--json").json
        assert line["waiting_for"] == "approved"
        assert [(note["kind"], note["name"]) for note in line["notes"]] == [
            ("step", "charge"),
            ("wait", "approved"),
            ("signal", "other"),
        ]
        assert all(note["at"].endswith("Z") for note in line["notes"])
