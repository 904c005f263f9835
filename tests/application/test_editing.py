"""Editing a dead job: a new one with other arguments, signed and made once; the old one stays dead."""

import json

import pytest

from onward import ArgumentError, JobContext, Limit, OptionError, Secret, State
from onward.errors import BackendUnavailable, DecryptionFailed, JobNotFound, SignatureRejected, SigningKeyMissing
from onward.job.envelope import Letter, Sealed, open_sealed
from tests.application.every_store import redis_server, store, url  # noqa: F401

KEYS = "2026-11:" + "ab" * 32


@pytest.fixture
def jobs(open_app):
    return open_app(clock=None)


def shop(jobs):
    """An application whose job fails for users that it does not know."""
    seen = []

    @jobs.job(queue="mail", name="send", timeout="5m")
    def send(ctx: JobContext, user_id: int, text: str = "hello", card: Secret[str] | None = None) -> None:
        if user_id < 0:
            raise KeyError(user_id)
        seen.append((user_id, text, card))

    send.seen = seen
    return send


@pytest.fixture
def send(jobs):
    return shop(jobs)


@pytest.fixture
def dead(jobs, send):
    handle = send.using(meta={"trace": "t"}, priority=3).enqueue(-1, text="hi")
    jobs.drain("mail")
    return jobs.get(handle.id)


@pytest.fixture
def unknown(jobs, claim_elsewhere):
    """Let a job die that only another service knows."""

    def unknown(payload):
        handle = jobs.enqueue("elsewhere", payload)
        (lease,) = claim_elsewhere(jobs)
        jobs.backend.abandon(lease, "it failed there")
        return handle.id

    return unknown


def letter(jobs, job_id) -> Letter:
    stored = jobs.backend.get(job_id)
    return open_sealed(Sealed(stored.id, stored.queue, stored.data))


@pytest.mark.promise("S134")
class TestMadeOnce:
    def test_a_new_job_runs_and_the_old_one_stays_dead(self, jobs, send, dead):
        made = jobs.dead_letters.edit(dead.id, set={"user_id": 42})
        jobs.drain("mail")

        assert made.enqueued
        assert send.seen == [(42, "hi", None)]
        assert jobs.get(made.id).meta == {"trace": "t", "onward.edited_from": dead.id}
        assert jobs.get(dead.id).state is State.DISCARDED

    def test_to_repeat_it_makes_no_second_job(self, jobs, send, dead):
        first = jobs.dead_letters.edit(dead.id, set={"user_id": 42})
        assert jobs.dead_letters.edit(dead.id, set={"user_id": 42}).id == first.id
        jobs.drain("mail")
        assert jobs.dead_letters.edit(dead.id, set={"user_id": 42}).id == first.id  # it has ended meanwhile
        jobs.drain("mail")

        assert send.seen == [(42, "hi", None)]

    def test_to_repeat_it_makes_none_when_the_new_one_is_gone(self, jobs, send, dead):
        first = jobs.dead_letters.edit(dead.id, set={"user_id": 42})
        jobs.drain("mail")
        list(jobs.bulk("purge", "state:completed"))
        assert jobs.get(first.id) is None

        again = jobs.dead_letters.edit(dead.id, set={"user_id": 42})
        jobs.drain("mail")

        assert (first.repeated, again.repeated, again.id) == (False, True, first.id)
        assert send.seen == [(42, "hi", None)]

    @pytest.mark.parametrize("by", [None, "ann"])
    def test_the_old_one_names_the_new(self, jobs, dead, by):
        made = jobs.dead_letters.edit(dead.id, set={"user_id": 42}, by=by, reason="a typing error")
        jobs.dead_letters.edit(dead.id, set={"user_id": 42}, by=by)

        (entry,) = jobs.audit(job=dead.id)
        assert (entry.act, entry.ref, entry.who, entry.detail) == ("edit", made.id, by or "program", "a typing error")
        assert list(jobs.audit(job=made.id)) == []

    def test_other_arguments_make_another_job(self, jobs, dead):
        made = {jobs.dead_letters.edit(dead.id, set={"user_id": number}).id for number in (1, 2, 3)}

        assert len(made) == 3

    def test_a_later_death_makes_another_job(self, jobs, dead):
        first = jobs.dead_letters.edit(dead.id, set={"user_id": 42})
        jobs.dead_letters.replay([dead.id])
        jobs.drain("mail")

        assert jobs.dead_letters.edit(dead.id, set={"user_id": 42}).id != first.id

    def test_the_id_tells_when_the_old_one_died(self, jobs, dead):
        made = jobs.dead_letters.edit(dead.id, set={"user_id": 42})

        assert int(made.id[:12], 16) == round(dead.finished_at.timestamp() * 1000 - 0.5)

    def test_a_lost_answer_makes_no_second_job(self, jobs, send, dead, monkeypatch):
        enqueue, lost = jobs.backend.enqueue, []

        def losing(envelopes, **options):
            answer = enqueue(envelopes, **options)
            if len(lost) < 3:
                lost.append(answer)
                jobs.drain("mail")  # it may even have ended
                raise BackendUnavailable("the answer was lost")
            return answer

        monkeypatch.setattr(jobs.backend, "enqueue", losing)
        made = jobs.dead_letters.edit(dead.id, set={"user_id": 42})
        monkeypatch.undo()
        jobs.drain("mail")

        assert (made.enqueued, len(lost)) == (True, 3)
        assert send.seen == [(42, "hi", None)]

    def test_a_caller_that_was_told_nothing_may_edit_again(self, jobs, send, dead, monkeypatch):
        enqueue = jobs.backend.enqueue

        def losing(envelopes, **options):
            enqueue(envelopes, **options)
            raise ConnectionResetError

        monkeypatch.setattr(jobs.backend, "enqueue", losing)
        with pytest.raises(ConnectionResetError):
            jobs.dead_letters.edit(dead.id, set={"user_id": 42})
        monkeypatch.undo()
        jobs.dead_letters.edit(dead.id, set={"user_id": 42})
        jobs.drain("mail")

        assert send.seen == [(42, "hi", None)]


@pytest.mark.promise("S135")
class TestOnlyArguments:
    def test_all_else_is_as_it_was_sealed(self, jobs, send):
        options = {"priority": 3, "idempotency_key": "k", "unique_key": "u", "expires": "1h", "max_retries": 0}
        dead = send.using(**options, meta={"trace": "t"}).enqueue(-1, text="hi")
        jobs.drain("mail")

        made = jobs.dead_letters.edit(dead.id, set={"user_id": 42})

        old, new = letter(jobs, dead.id), letter(jobs, made.id)
        differs = {name for name in Letter.__struct_fields__ if getattr(old, name) != getattr(new, name)}
        assert differs == {"id", "payload", "enqueued_at", "meta"}
        assert json.loads(bytes(new.payload)) == {"user_id": 42, "text": "hi"}
        assert (new.queue, new.job, new.timeout, new.priority, new.idempotency_key) == ("mail", "send", 300, 3, "k")

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({"set": {"user_id": "many"}}, "Expected `int`, got `str`"),
            ({"set": {"users": 1}}, "users"),
            ({"unset": ["user_id"]}, "user_id"),
            ({"unset": ["nothing"]}, "the job has no argument 'nothing' to unset: it has user_id, text"),
            ({"set": {"user_id": object()}}, "cannot travel as JSON"),
            ({"payload": [1]}, "Expected `object`"),
            ({"set": {"user_id": -1}}, "has these very arguments"),
        ],
    )
    def test_they_must_fit(self, jobs, dead, changes, told):
        with pytest.raises(ArgumentError) as raised:
            jobs.dead_letters.edit(dead.id, **changes)

        assert told in str(raised.value)
        assert jobs.counts()[State.AVAILABLE] == 0

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({}, "nothing is edited"),
            ({"set": {"text": "x"}, "payload": {}}, "leave out set and unset"),
            ({"set": {"text": "x"}, "unset": ["text"]}, "'text' is both set and unset"),
        ],
    )
    def test_a_request_that_contradicts_itself_is_refused(self, jobs, dead, changes, told):
        with pytest.raises(OptionError, match=told):
            jobs.dead_letters.edit(dead.id, **changes)

    def test_unset_leaves_an_argument_out_and_payload_gives_all(self, jobs, send, dead):
        jobs.dead_letters.edit(dead.id, set={"user_id": 1}, unset=["text"])
        jobs.dead_letters.edit(dead.id, payload={"user_id": 2, "text": "all"})
        jobs.drain("mail")

        assert sorted(send.seen) == [(1, "hello", None), (2, "all", None)]

    def test_only_dead_jobs_are_edited(self, jobs, send):
        alive = send.using(delay="1h").enqueue(1).id

        with pytest.raises(OptionError, match=f"job {alive} is scheduled, and only dead jobs are edited"):
            jobs.dead_letters.edit(alive, set={"user_id": 2})
        with pytest.raises(JobNotFound, match="`onward dead list`"):
            jobs.dead_letters.edit("0" * 32, set={"user_id": 2})

    def test_one_that_has_expired_is_refused(self, open_app, clock):
        jobs = open_app()
        handle = shop(jobs).using(expires="1m").enqueue(-1)
        jobs.drain("mail")
        clock.advance(61)

        with pytest.raises(OptionError, match=r"expired at .*: enqueue it anew"):
            jobs.dead_letters.edit(handle.id, set={"user_id": 2})

    def test_a_dry_run_says_what_differs_and_enqueues_nothing(self, jobs, dead):
        made = jobs.dead_letters.edit(dead.id, set={"user_id": 42}, unset=["text"], dry_run=True)

        assert not made.enqueued
        assert [(each.name, each.before, each.after, each.is_given) for each in made.changes] == [
            ("user_id", -1, 42, True),
            ("text", "hi", None, False),
        ]
        assert jobs.get(made.id) is None


class TestSecrets:
    def test_they_are_masked_in_the_difference_and_in_the_new_job(self, jobs, send):
        handle = send.enqueue(-1, card=Secret("4242"))
        jobs.drain("mail")

        made = jobs.dead_letters.edit(handle.id, set={"user_id": 1, "card": "4343"})

        assert ("card", "***", "***") in [(each.name, each.before, each.after) for each in made.changes]
        assert jobs.get(made.id).payload["card"] == "***"
        assert "4343" not in repr(made)
        jobs.drain("mail")
        assert send.seen == [(1, "hello", Secret("4343"))]

    def test_a_secret_that_is_given_as_such_stays_one(self, jobs, unknown):
        dead = unknown({"pin": 1})

        made = jobs.dead_letters.edit(dead, set={"pin": Secret(2)})

        assert jobs.get(made.id).payload == {"pin": "***"}
        assert jobs.get(made.id).reveal() == {"pin": 2}

    def test_where_the_job_is_not_defined_every_value_is_masked(self, store, dead, open_app):  # noqa: F811
        if store == "memory":
            pytest.skip("no other application sees it")
        stranger = open_app(clock=None)

        made = stranger.dead_letters.edit(dead.id, set={"user_id": 42})

        assert (made.checked, made.changes[0].before, made.changes[0].after) == (False, "***", "***")
        assert stranger.get(made.id).meta["onward.edited_from"] == dead.id


class TestKeysAndLanes:
    def test_a_unique_key_of_the_arguments_is_made_anew(self, jobs):
        @jobs.job(queue="mail", unique_key="send:{user_id}")
        def once(user_id: int) -> None:
            raise KeyError(user_id)

        handle = once.enqueue(1)
        jobs.drain("mail")

        made = jobs.dead_letters.edit(handle.id, set={"user_id": 2})

        assert letter(jobs, made.id).unique_key == "send:2"

    def test_a_unique_key_that_the_call_named_stays(self, jobs, send):
        handle = send.using(unique_key="mine").enqueue(-1)
        jobs.drain("mail")

        made = jobs.dead_letters.edit(handle.id, set={"user_id": 2})

        assert letter(jobs, made.id).unique_key == "mine"

    @pytest.mark.parametrize("strategy", ["ignore_new", "cancel_existing"])
    def test_a_live_job_keeps_its_key(self, jobs, send, strategy):
        options = {"unique_key": "mine", "unique_strategy": strategy}
        handle = send.using(**options).enqueue(-1)
        jobs.drain("mail")
        alive = send.using(**options).enqueue(5).id

        made = jobs.dead_letters.edit(handle.id, set={"user_id": 2})

        assert (made.enqueued, made.held_by) == (False, alive)
        assert jobs.get(alive).state is State.AVAILABLE
        assert jobs.get(made.id) is None

    def test_the_lane_follows_the_arguments(self, jobs):
        @jobs.job(queue="mail", limit=Limit(running=1, by="tenant"))
        def render(tenant: str) -> None:
            raise KeyError(tenant)

        handle = render.enqueue("acme")
        jobs.drain("mail")

        made = jobs.dead_letters.edit(handle.id, set={"tenant": "globex"})

        assert jobs.get(made.id).lane == "render/globex"


class TestMembers:
    def test_a_member_of_a_flow_is_refused(self, jobs, send):
        flow = jobs.flow("order")
        flow.add(send, -1)
        flow.enqueue()
        jobs.drain("mail")
        (member,) = jobs.find("state:dead").jobs

        with pytest.raises(OptionError, match="is a member of flow"):
            jobs.dead_letters.edit(member.id, set={"user_id": 2})


@pytest.fixture
def signing_app(store, open_app):  # noqa: F811
    if store == "memory":
        pytest.skip("no other application sees it")
    return lambda **settings: open_app(clock=None, **settings)


class TestSigning:
    @pytest.fixture
    def signed(self, signing_app):
        jobs = signing_app(signing_keys=KEYS, signing="require")
        handle = shop(jobs).enqueue(-1)
        jobs.drain("mail")
        return jobs, handle.id

    def test_the_new_job_is_signed(self, signed):
        jobs, dead = signed

        made = jobs.dead_letters.edit(dead, set={"user_id": 2})

        assert jobs.backend.get(made.id).data.startswith(b"onward/1 2026-11 ")
        assert jobs.process_once("mail").status == "acked"

    def test_a_process_that_may_not_sign_is_told_which_key_is_missing(self, signed, signing_app):
        _, dead = signed

        with pytest.raises(SigningKeyMissing, match="is signed with key '2026-11', and this process has no key"):
            signing_app().dead_letters.edit(dead, set={"user_id": 2})

    def test_what_does_not_verify_is_not_signed(self, signed, signing_app):
        jobs, _ = signed
        forged = shop(other := signing_app()).enqueue(-1)
        other.drain("mail")

        told = []
        try:
            jobs.dead_letters.edit(forged.id, set={"user_id": 2})
        except SignatureRejected as error:
            told.append(str(error))

        assert told == ["it is not signed"]
        assert jobs.counts()[State.AVAILABLE] == 0


class TestEncryption:
    def test_what_came_encrypted_is_encrypted_again(self, signing_app):
        jobs = signing_app(signing_keys=KEYS, encryption=True)
        handle = shop(jobs).enqueue(-1, text="private")
        jobs.drain("mail")
        reader = signing_app(signing_keys=KEYS)
        shop(reader)

        made = reader.dead_letters.edit(handle.id, set={"user_id": 2})

        assert b"private" not in jobs.backend.get(made.id).data
        assert jobs.get(made.id).payload == {"user_id": 2, "text": "private"}

    def test_without_the_key_it_says_which(self, signing_app):
        jobs = signing_app(signing_keys=KEYS, encryption=True)
        handle = shop(jobs).enqueue(-1, text="private")
        jobs.drain("mail")
        other = signing_app(signing_keys="other:" + "cd" * 32)

        with pytest.raises(DecryptionFailed, match="2026-11"):
            other.dead_letters.edit(handle.id, set={"user_id": 2})


def test_arguments_without_names_are_given_whole(jobs, unknown):
    dead = unknown(["ls"])

    with pytest.raises(
        OptionError, match="the arguments of 'elsewhere' have no names: give all of them as the payload"
    ):
        jobs.dead_letters.edit(dead, set={"x": 1})

    assert jobs.get(jobs.dead_letters.edit(dead, payload=["pwd"]).id).payload == ["pwd"]


@pytest.mark.parametrize("payload", [[1, 2], "one", 7])
def test_arguments_without_names_are_replaced_where_the_job_is_not_known(jobs, unknown, payload):
    made = jobs.dead_letters.edit(unknown(payload), payload=[3])

    assert (made.enqueued, made.checked, made.doubt) == (True, False, "")


@pytest.mark.parametrize(
    ("payload", "changes", "doubt"),
    [
        ({"user_id": 1}, {"user_id": 2}, ""),
        ({"user_id": 1}, {"user": 2}, "the job was enqueued with user_id, and without 'user'"),
        ({}, {"user": 2, "to": 3}, "the job was enqueued with no argument, and without 'user', 'to'"),
    ],
)
def test_a_name_that_the_job_did_not_have_is_doubted_where_nothing_is_checked(jobs, unknown, payload, changes, doubt):
    made = jobs.dead_letters.edit(unknown(payload), set=changes, dry_run=True)

    assert (made.checked, made.doubt) == (False, doubt)
