"""Jobs that were given up: kept with everything that is known of them, listed, replayed, purged, copied to a queue."""

import logging

import pytest

from onward import Discard, JobContext, NoDelay

QUEUE = "failed_jobs"


@pytest.fixture
def failing(jobs):
    @jobs.job(max_retries=1, retry=NoDelay(), meta={"tenant": "acme"})
    def failing(n: int = 1):
        raise RuntimeError(f"no luck with {n}")

    return failing


@pytest.mark.promise("S19")
def test_an_acked_job_leaves_the_live_jobs_for_good(jobs):
    @jobs.job
    def work(): ...

    work.enqueue()
    jobs.drain()

    counts = jobs.counts()
    assert counts["completed"] == 1
    assert sum(counts.values()) == 1
    assert jobs.queues() == []


@pytest.mark.promise("S21")
def test_a_job_that_is_given_up_is_kept_with_its_errors_and_the_reason(jobs, failing):
    handle = failing.enqueue(7)
    jobs.drain()

    record = jobs.get(handle.id)
    assert (record.state, record.payload, record.meta) == ("discarded", {"n": 7}, {"tenant": "acme"})
    assert record.reason == "gave up after 2 attempts: max_retries is 1"
    assert [(error.attempt, error.kind, error.message) for error in record.errors] == [
        (1, "RuntimeError", "no luck with 7"),
        (2, "RuntimeError", "no luck with 7"),
    ]


@pytest.mark.promise("S21")
def test_a_critical_log_line_names_the_job_that_is_given_up(jobs, failing, caplog):
    handle = failing.enqueue()
    jobs.drain()

    (line,) = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert handle.id in line.getMessage()
    assert "failing" in line.getMessage()


@pytest.mark.promise("S24", "F62")
def test_discarded_jobs_are_not_pruned_with_the_completed(jobs, failing, clock):
    @jobs.job
    def fine(): ...

    dead, done = failing.enqueue(), fine.enqueue()
    jobs.drain()
    clock.advance(1)
    removed = jobs.prune(older_than=clock.now())

    assert removed == 1
    assert jobs.get(done.id) is None
    assert jobs.get(dead.id).state == "discarded"


def test_dead_letters_are_listed_oldest_first_and_page_by_page(jobs, failing):
    handles = failing.enqueue_many([(n,) for n in range(5)])
    jobs.drain()

    first = jobs.dead_letters.list(limit=3)
    rest = jobs.dead_letters.list(limit=3, after=first[-1].id)

    assert [record.id for record in (*first, *rest)] == [handle.id for handle in handles]


def test_dead_letters_are_listed_by_queue_and_by_job(jobs, failing):
    @jobs.job(queue="mail")
    def other():
        raise RuntimeError

    default, mail = failing.enqueue(), other.enqueue()
    jobs.drain()

    assert [record.id for record in jobs.dead_letters.list("mail")] == [mail.id]
    assert [record.id for record in jobs.dead_letters.list(job="failing")] == [default.id]


def test_a_dead_letter_can_be_had_by_its_id_and_nothing_else_can(jobs, failing):
    dead = failing.enqueue()
    jobs.drain()
    live = failing.enqueue()

    assert jobs.dead_letters.get(dead.id).id == dead.id
    assert jobs.dead_letters.get(live.id) is None
    assert jobs.dead_letters.get("0" * 32) is None


def test_a_replayed_job_has_its_whole_budget_again_and_keeps_its_history(jobs, failing):
    handle = failing.enqueue()
    jobs.drain()
    before = jobs.get(handle.id)

    assert jobs.dead_letters.replay([handle.id]) == 1
    replayed = jobs.get(handle.id)
    assert (replayed.state, replayed.attempts, replayed.reason) == ("available", 0, None)
    assert (replayed.errors, replayed.delivery) == (before.errors, before.delivery)

    jobs.drain()
    assert [error.attempt for error in jobs.get(handle.id).errors] == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("choice", "replayed"),
    [({}, 4), ({"queue": "default"}, 3), ({"queue": "mail"}, 1), ({"job": "failing"}, 3), ({"limit": 2}, 2)],
)
def test_replay_takes_all_dead_letters_unless_it_is_told_which(jobs, failing, choice, replayed):
    failing.enqueue_many([(1,), (2,), (3,)])

    @jobs.job(queue="mail")
    def other():
        raise RuntimeError

    other.enqueue()
    jobs.drain()

    assert jobs.dead_letters.replay(**choice) == replayed
    assert jobs.counts()["discarded"] == 4 - replayed


def test_replay_and_purge_go_through_more_jobs_than_one_batch_holds(jobs):
    @jobs.job
    def work():
        raise Discard("enough")

    work.enqueue_many([()] * 1_100)
    jobs.drain()

    assert jobs.dead_letters.replay(limit=600) == 600
    assert jobs.dead_letters.purge() == 500
    assert jobs.counts()["available"] == 600


@pytest.mark.promise("F74")
def test_replay_skips_a_job_whose_unique_key_is_taken_and_replays_its_neighbours(jobs, failing):
    keyed = failing.using(unique_key="k")
    first, dead, last = failing.enqueue(), keyed.enqueue(), failing.enqueue()
    jobs.drain()
    holder = keyed.enqueue()

    replay = jobs.dead_letters.replay()

    assert replay == 2
    assert replay.skipped == {dead.id: f"key held by {holder.id}"}
    assert [first.state(), dead.state(), last.state()] == ["available", "discarded", "available"]


def test_replay_skips_a_job_that_has_expired(jobs, failing, clock):
    handle = failing.using(expires="1h").enqueue()
    jobs.drain()
    clock.advance(3600)

    replay = jobs.dead_letters.replay()

    assert (replay, replay.skipped) == (0, {handle.id: "expired"})


def test_purge_removes_dead_letters_for_good(jobs, failing):
    kept, purged = failing.enqueue(), failing.enqueue()
    jobs.drain()

    assert jobs.dead_letters.purge([purged.id]) == 1
    assert jobs.get(purged.id) is None
    assert kept.state() == "discarded"


def test_purge_never_takes_a_job_that_is_not_dead(jobs, failing):
    live = failing.enqueue()

    assert jobs.dead_letters.purge([live.id]) == 0
    assert live.state() == "available"


class TestADeadLetterQueue:
    @pytest.fixture
    def jobs(self, open_app):
        return open_app(dead_letter_queue=QUEUE)

    @pytest.mark.promise("S23")
    def test_a_discard_puts_a_copy_there_and_the_original_stays_discarded(self, jobs, failing):
        handle = failing.enqueue(7)
        jobs.drain("default")

        (copy,) = jobs.list(queue=QUEUE)
        assert (copy.job, copy.state) == ("dead_letter", "available")
        assert handle.state() == "discarded"

    @pytest.mark.promise("S23")
    def test_the_copy_carries_the_original_the_reason_and_every_error(self, jobs, failing):
        handle = failing.enqueue(7)
        jobs.drain("default")

        (copy,) = jobs.list(queue=QUEUE)
        assert copy.payload == {
            "id": handle.id,
            "job": "failing",
            "name": "failing",
            "queue": "default",
            "payload": {"n": 7},
            "meta": {"tenant": "acme"},
            "reason": "gave up after 2 attempts: max_retries is 1",
            "attempts": 2,
            "errors": [
                {"attempt": 1, "kind": "RuntimeError", "message": "no luck with 7"},
                {"attempt": 2, "kind": "RuntimeError", "message": "no luck with 7"},
            ],
        }

    @pytest.mark.promise("S23")
    def test_a_handler_named_dead_letter_is_told(self, jobs, failing):
        told = []

        @jobs.job(queue=QUEUE)
        def dead_letter(
            ctx: JobContext,
            id,  # noqa: A002
            job,
            name,
            queue,
            payload,
            meta,
            reason,
            attempts,
            errors,
        ):
            told.append((id, job, reason))

        handle = failing.enqueue()
        jobs.drain()

        assert told == [(handle.id, "failing", "gave up after 2 attempts: max_retries is 1")]

    @pytest.mark.promise("S23")
    def test_the_death_of_a_dead_letter_leaves_no_copy(self, jobs, failing):
        @jobs.job(queue=QUEUE)
        def dead_letter(ctx: JobContext, id, job, name, queue, payload, meta, reason, attempts, errors):  # noqa: A002
            raise RuntimeError("nor can I")

        failing.enqueue()
        jobs.drain()

        assert [record.state for record in jobs.list(queue=QUEUE)] == ["discarded"]

    @pytest.mark.promise("S23")
    def test_a_job_that_crashed_too_often_is_copied_when_it_is_reaped(self, jobs, failing, crash_elsewhere, clock):
        handle = failing.enqueue()
        for _ in range(3):
            crash_elsewhere(jobs)
            clock.advance(600)

        (copy,) = jobs.list(queue=QUEUE)
        assert handle.state() == "discarded"
        assert copy.payload["id"] == handle.id
        assert copy.payload["reason"].startswith("crashed 3 times")
        assert [error["kind"] for error in copy.payload["errors"]] == ["Crash"] * 3

    def test_every_way_to_die_leaves_one_copy_each(self, jobs, clock):
        @jobs.job
        def gives_up():
            raise Discard("no use")

        @jobs.job(discard_on=ValueError, max_retries=9)
        def not_retried():
            raise ValueError

        ids = {gives_up.enqueue().id, not_retried.enqueue().id, jobs.enqueue("unknown_here").id}
        jobs.drain("default")
        clock.advance(86_400)
        jobs.drain("default")

        assert {copy.payload["id"] for copy in jobs.list(queue=QUEUE)} == ids

    def test_the_copy_fits_however_long_the_errors_were(self, open_app):
        jobs = open_app(dead_letter_queue=QUEUE, max_payload=1024)

        @jobs.job(max_retries=3, retry=NoDelay())
        def work():
            raise RuntimeError("\x01" * 10_000)

        handle = work.enqueue()
        jobs.drain("default")

        (copy,) = jobs.list(queue=QUEUE)
        assert handle.state() == "discarded"
        assert len(copy.payload["errors"]) == 4

    @pytest.mark.promise("S23")
    def test_an_application_may_store_dead_letters_of_its_own(self, jobs):
        stored = jobs.dead_letters.store({"order": 7}, "charge", "the card was stolen", attempts=3)

        (copy,) = jobs.list(queue=QUEUE)
        assert stored is True
        assert copy.payload == {
            "job": "charge",
            "queue": None,
            "payload": {"order": 7},
            "reason": "the card was stolen",
            "attempts": 3,
        }

    @pytest.mark.promise("S23")
    @pytest.mark.parametrize("payload", [object(), "\ud800", "x" * 2_000_000, pytest.param(None, id="cyclic")])
    def test_a_dead_letter_that_cannot_be_stored_is_answered_with_false(self, jobs, payload):
        if payload is None:
            payload = []
            payload.append(payload)

        assert jobs.dead_letters.store(payload, "charge", "why", attempts=1) is False
        assert jobs.list(queue=QUEUE) == []


@pytest.mark.promise("S23")
def test_storing_a_dead_letter_without_a_queue_for_it_is_answered_with_false(jobs):
    assert jobs.dead_letters.store({}, "charge", "why", attempts=1) is False


def test_a_discard_without_a_dead_letter_queue_leaves_no_copy(jobs, failing):
    failing.enqueue()
    jobs.drain()

    assert sum(jobs.counts().values()) == 1


def test_a_dead_letter_queue_needs_a_proper_name(open_app):
    with pytest.raises(ValueError, match="queue name"):
        open_app(dead_letter_queue="no good")
