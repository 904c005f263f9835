"""Acts on all that match a filter: previewed first, done batch by batch, and nothing swept along that came later."""

import pytest

from onward import JobContext, OptionError, State
from onward.operate import bulk, finding
from onward.telemetry import JobCancelled
from tests.application.every_store import redis_server, store, url  # noqa: F401


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(finding, "PAGE", 4)
    monkeypatch.setattr(bulk, "PAGE", 4)


@pytest.fixture
def jobs(open_app):
    return open_app(clock=None)


@pytest.fixture
def fail(jobs):
    @jobs.job(name="fail", queue="mail")
    def fail(number: int) -> None:
        raise RuntimeError(f"no {number}")

    return fail


@pytest.fixture
def kill(jobs, fail):
    def kill(count):
        ids = [handle.id for handle in fail.enqueue_many([(number,) for number in range(count)])]
        jobs.drain("mail")
        return ids

    return kill


def states(jobs, ids):
    return [jobs.get(each).state for each in ids]


class TestPreview:
    def test_it_counts_and_shows_some(self, jobs, kill):
        ids = kill(10)
        jobs.enqueue("alive", queue="mail")

        preview = jobs.preview("replay", "queue:mail")

        assert (preview.count, preview.exact) == (10, True)
        assert preview.by_queue == {("mail", State.DISCARDED): 10}
        assert [record.id for record in preview.samples] == ids[:3]
        assert preview.until.id == ids[-1]

    def test_it_counts_up_to_a_bound(self, jobs, kill):
        kill(10)

        preview = jobs.preview("replay", "queue:mail", at_most=5)

        assert (preview.count, preview.exact) == (8, False)
        assert jobs.preview("replay", "queue:mail", at_most=None).count == 10

    def test_nothing_is_nothing(self, jobs, kill):
        preview = jobs.preview("purge", "queue:post")

        assert (preview.count, preview.samples, preview.until) == (0, (), None)
        assert list(jobs.bulk("purge", "queue:post", until=preview.until)) == []


class TestActs:
    def test_replay_puts_dead_jobs_back_batch_by_batch(self, jobs, kill):
        ids = kill(10)

        batches = list(jobs.bulk("replay", "queue:mail"))

        assert [batch.done for batch in batches] == [4, 8, 10]
        assert [job_id for batch in batches for job_id in batch.ids] == ids
        assert set(states(jobs, ids)) == {State.AVAILABLE}

    def test_a_filter_that_is_walked_chooses_too(self, jobs, kill):
        ids = kill(10)

        assert sum(len(batch.ids) for batch in jobs.bulk("replay", "arg.number:7")) == 1
        assert jobs.get(ids[7]).state is State.AVAILABLE

    def test_cancel_ends_what_waits_and_says_why(self, jobs, listen):
        heard = listen(jobs)
        ids = [jobs.enqueue("elsewhere", queue="mail").id for _ in range(6)]
        other = jobs.enqueue("elsewhere", queue="post").id

        done = [batch.done for batch in jobs.bulk("cancel", "queue:mail", reason="the campaign is over")]

        assert done[-1] == 6
        assert set(states(jobs, ids)) == {State.CANCELLED}
        assert {jobs.get(each).reason for each in ids} == {"the campaign is over"}
        assert jobs.get(other).state is State.AVAILABLE
        assert len(heard(JobCancelled)) == 6

    def test_retry_makes_due_what_waits(self, jobs):
        ids = [jobs.enqueue("elsewhere", queue="mail", delay="1h").id for _ in range(6)]

        assert [*jobs.bulk("retry", "queue:mail")][-1].done == 6

        assert set(states(jobs, ids)) == {State.AVAILABLE}

    def test_retry_replays_if_the_filter_says_so(self, jobs, kill):
        ids = kill(3)
        later = jobs.enqueue("elsewhere", queue="mail", delay="1h").id

        assert [*jobs.bulk("retry", "queue:mail state:dead,scheduled")][-1].done == 4

        assert set(states(jobs, [*ids, later])) == {State.AVAILABLE}

    def test_purge_removes_the_dead_unless_other_states_are_named(self, jobs, kill):
        ids = kill(6)
        cancelled = jobs.enqueue("elsewhere", queue="mail").id
        jobs.cancel(cancelled)

        assert [*jobs.bulk("purge", "queue:mail")][-1].done == 6
        assert [jobs.get(each) for each in ids] == [None] * 6
        assert jobs.get(cancelled).state is State.CANCELLED
        assert [*jobs.bulk("purge", "state:cancelled")][-1].done == 1

    def test_what_cannot_be_replayed_is_skipped_with_its_reason(self, jobs, fail):
        (dead,) = [fail.using(unique_key="one").enqueue(1).id]
        jobs.drain("mail")
        alive = fail.using(unique_key="one").enqueue(2).id

        (batch,) = jobs.bulk("replay", "queue:mail")

        assert (batch.done, batch.skipped) == (0, {dead: f"key held by {alive}"})

    @pytest.mark.parametrize(
        ("act", "text", "told"),
        [
            ("replay", "", "an empty filter means every job"),
            (
                "replay",
                "state:completed",
                "replay changes jobs that are cancelled, discarded, not those that are completed",
            ),
            ("cancel", "state:dead", "cancel changes jobs that are"),
            ("purge", "state:available", "purge changes jobs that are"),
            ("kill", "queue:mail", "there is no bulk act 'kill'"),
        ],
    )
    def test_what_makes_no_sense_is_refused_before_anything_is_done(self, jobs, act, text, told):
        with pytest.raises(OptionError, match=told):
            jobs.bulk(act, text)


@pytest.mark.promise("S145")
class TestNoMore:
    def test_what_is_enqueued_after_the_preview_is_left_alone(self, jobs):
        before = [jobs.enqueue("elsewhere", queue="mail").id for _ in range(3)]
        preview = jobs.preview("cancel", "queue:mail")
        after = [jobs.enqueue("elsewhere", queue="mail").id for _ in range(3)]

        list(jobs.bulk("cancel", "queue:mail", until=preview.until))

        assert set(states(jobs, before)) == {State.CANCELLED}
        assert set(states(jobs, after)) == {State.AVAILABLE}

    def test_an_older_job_that_dies_after_the_preview_is_left_alone(self, jobs, fail):
        late = fail.enqueue(0).id
        early = fail.using(queue="post").enqueue(1).id
        jobs.drain("post")
        preview = jobs.preview("purge", "job:fail")
        jobs.drain("mail")

        list(jobs.bulk("purge", "job:fail", until=preview.until))

        assert late < early
        assert [record.id for record in jobs.dead_letters.list()] == [late]

    def test_arrivals_while_it_goes_are_left_alone(self, jobs, kill):
        ids = kill(8)
        later = []
        for _ in jobs.bulk("replay", "queue:mail"):
            jobs.drain("mail")  # what was replayed dies again at once
            later += [jobs.get(each).attempts for each in ids[:4]]

        assert later == [1] * 8  # a second life, and no third
        assert set(states(jobs, ids)) == {State.DISCARDED}

    def test_to_stop_the_iterator_stops_after_the_batch(self, jobs, kill):
        ids = kill(10)

        batches = jobs.bulk("replay", "queue:mail")
        next(batches)
        batches.close()

        assert states(jobs, ids) == [State.AVAILABLE] * 4 + [State.DISCARDED] * 6

    def test_a_limit_counts_what_was_changed(self, jobs, kill):
        ids = kill(10)

        assert [*jobs.bulk("replay", "queue:mail", limit=6)][-1].done == 6
        assert states(jobs, ids) == [State.AVAILABLE] * 6 + [State.DISCARDED] * 4

    def test_a_job_that_has_moved_on_is_not_touched(self, jobs, kill, monkeypatch):
        ids = kill(3)
        acts = jobs._operators.bulk._acts
        replay = acts.replay

        def raced(*found, **options):
            jobs.dead_letters.purge([ids[1]])
            return replay(*found, **options)

        monkeypatch.setattr(acts, "replay", raced)
        (batch,) = jobs.bulk("replay", "queue:mail")

        assert batch.ids == (ids[0], ids[2])
        assert batch.skipped == {ids[1]: "it is no longer discarded"}


class TestAudit:
    def test_an_entry_for_the_act_and_one_for_each_job(self, jobs, kill):
        ids = kill(6)

        list(jobs.bulk("replay", "queue:mail", by="ann", reason="the bank is back"))

        (act,) = jobs.audit(act="bulk")
        assert (act.who, act.detail, act.job_id) == ("ann", "replay queue:mail; the bank is back", "")
        entries = jobs.audit(act="replay")
        assert sorted(entry.job_id for entry in entries) == ids
        assert {(entry.ref, entry.who, entry.detail) for entry in entries} == {(act.ref, "ann", "the bank is back")}
        assert len(jobs.audit(ref=act.ref)) == 7

    @pytest.mark.parametrize("act", ["cancel", "retry"])
    def test_every_act_leaves_its_own(self, jobs, act):
        for _ in range(5):
            jobs.enqueue("elsewhere", queue="mail", delay="1h")

        list(jobs.bulk(act, "queue:mail", by="ann", reason="over"))

        assert len(jobs.audit(act="bulk")) == 1
        assert [entry.detail for entry in jobs.audit(act=act)] == ["over"] * 5

    def test_a_purge_names_the_first_and_the_last_of_each_batch(self, jobs, monkeypatch):
        monkeypatch.setattr("onward.operate.bulk.PAGE", 2)
        monkeypatch.setattr("onward.operate.finding.PAGE", 2)
        ids = [jobs.enqueue("elsewhere", queue="mail", delay="1h").id for _ in range(5)]
        list(jobs.bulk("cancel", "queue:mail"))

        list(jobs.bulk("purge", "queue:mail state:cancelled", by="ann", reason="over"))

        assert [entry.detail for entry in jobs.audit(act="bulk")] == ["purge queue:mail state:cancelled; over"]
        purged = [(entry.ref, entry.detail, entry.job_id) for entry in jobs.audit(act="purge")]
        ranges = [(ids[0], ids[1]), (ids[2], ids[3]), (ids[4], ids[4])]
        assert sorted(purged) == [(f"{first}-{last}", "over", "") for first, last in ranges]
        assert 'purged by ann ("over")' in jobs.why(ids[2]).text

    def test_what_changed_nothing_leaves_none(self, jobs):
        assert list(jobs.bulk("replay", "queue:mail", by="ann")) == []

        assert list(jobs.audit()) == []

    def test_secrets_in_a_filter_are_masked_there(self, jobs):
        jobs.enqueue("elsewhere", {"n": 1}, queue="mail", delay="1h")

        list(jobs.bulk("retry", "queue:mail", by="ann"))
        chosen = jobs._operators.bulk.filter("retry", "queue:mail arg.password:hunter2 x")
        assert chosen.shown == "queue:mail arg.password:*** x"

    def test_a_reason_needs_a_person_before_anything_is_done(self, jobs, kill):
        kill(1)

        with pytest.raises(OptionError, match="give by="):
            jobs.bulk("replay", "queue:mail", reason="fixed")
        with pytest.raises(OptionError, match="give by="):
            jobs.dead_letters.canary("queue:mail", reason="fixed")


def test_the_reason_of_a_cancel_has_no_secret_of_the_jobs(jobs):
    @jobs.job(queue="mail")
    def pay(ctx: JobContext, password: str) -> None: ...

    ids = [pay.enqueue(password=f"hunter{number}").id for number in range(4)]

    list(jobs.bulk("cancel", "queue:mail", reason="hunter3 leaked"))

    assert {jobs.get(each).reason for each in ids} == {"*** leaked"}
