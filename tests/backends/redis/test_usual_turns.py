"""What scripts do with many usual jobs at once: it is what they do with any job, or nothing."""

import random

import pytest

from onward.backend import Claim, RanBy, Settlement
from onward.backends.redis import turning
from onward.backends.redis.packing import fresh
from onward.base.failure import Failure
from onward.job.settlement import under
from onward.job.states import State
from onward.testing.contract.builders import (
    SETTLEMENTS,
    a_claim,
    a_failure,
    a_lease,
    a_session,
    a_turn,
    an_envelope,
    ids,
    some_envelopes,
)
from onward.testing.contract.lanes import a_limit, declare, in_lane
from tests.backends.redis.test_limits import commands
from tests.backends.turn_stories import ODD, QUEUES, a_story, settled, told

WHOLE = 10**9  # turns


def scripts(raw, call):
    """How often a call runs a script."""
    raw.config_resetstat()
    call()
    return raw.info("commandstats")["cmdstat_evalsha"]["calls"]


def contents(raw):
    """What the server holds, but for the state of its random order."""
    found = {}
    for key in raw.scan_iter():
        kind = raw.type(key)
        if kind == b"hash":
            found[key] = raw.hgetall(key)
        elif kind == b"zset":
            found[key] = raw.zrange(key, 0, -1, withscores=True)
        elif kind == b"set":
            found[key] = raw.smembers(key)
        else:
            found[key] = raw.lrange(key, 0, -1)
    return found


@pytest.fixture
def wakes(raw):
    """Wake one thread for each queue that has a token; says which queues."""

    def wake():
        tokens = list(raw.scan_iter("{onward}:wake:*"))
        raw.delete(*tokens or ["none"])
        return sorted(tokens)

    return wake


@pytest.mark.parametrize("seed", range(6))
def test_it_answers_and_writes_what_the_whole_script_does(open_backend, raw, clock, wakes, seed):
    story, start = a_story(seed, clock.micros()), clock.now()
    usual, whole = open_backend(), open_backend()
    whole._whole_turns = WHOLE

    def usual_turn(*given):
        made.append(turn(*given))
        usual._whole_turns = 0
        return made[-1]

    made, turn, usual._usual_turn = [], usual._usual_turn, usual_turn
    first = told(usual, clock, story, wakes)
    found = contents(raw)
    raw.flushall()
    clock.set(start)

    assert told(whole, clock, story, wakes) == first
    assert contents(raw) == found
    assert any(each is None for each in made)
    assert any(each is not None for each in made)


def test_what_concerns_all_queues_of_a_turn_is_asked_once(backend, raw):
    def turn_over(queues):
        backend.enqueue([an_envelope(queue=queue) for queue in queues])
        leases = backend.turn(a_turn(claim=Claim(queues=queues, limit=100))).leases
        backend.enqueue([an_envelope(queue=queue) for queue in queues])
        turn = a_turn(*map(Settlement.ack, leases), claim=Claim(queues=queues, limit=100))
        return sum(commands(raw, lambda: backend.turn(turn)).values())

    backend.open_session(a_session())
    few, many = (turn_over(tuple(f"{count}-{number}" for number in range(count))) for count in (10, 30))

    # Its line is read and shortened, and it has completed one more.
    assert (many - few) / 20 <= 3


def test_one_call_settles_jobs_and_claims_others(backend, raw):
    lease = a_lease(backend)
    backend.enqueue(some_envelopes(2))
    turn = a_turn(Settlement.ack(lease), claim=Claim(queues=("default",), limit=2))

    assert scripts(raw, lambda: backend.turn(turn)) <= 1  # 0: the server was told the script


@pytest.mark.parametrize(
    "unusual",
    [
        lambda backend, clock: backend.enqueue([an_envelope(delay=1)]) and clock.advance(2),
        lambda backend, clock: backend.enqueue([an_envelope(single_instance="s")]),
        lambda backend, clock: declare(backend, a_limit(running=1)) or backend.enqueue(in_lane(1, "acme")),
        lambda backend, clock: backend.cancel([ids(backend.turn(CLAIM).leases)[0]], "enough"),
    ],
    ids=["due", "held", "laned", "asked"],
)
def test_where_anything_takes_more_it_writes_nothing_and_is_not_tried_for_a_while(backend, raw, clock, unusual):
    backend.enqueue(some_envelopes(3))
    backend.open_session(a_session())
    unusual(backend, clock)
    before = contents(raw)

    assert backend._run("turn_usual", clock.micros(), "worker", ("default",), 9, {}, [], [], False) is None
    assert contents(raw) == before
    backend.turn(a_turn(claim=Claim(queues=("default",), limit=9)))
    assert backend._whole_turns > 0
    assert "zscore" in commands(raw, lambda: backend.turn(CLAIM))


CLAIM = a_turn(claim=Claim(queues=("default",), limit=1))


@pytest.mark.parametrize("holder", ["worker", "another"])
def test_a_lease_that_was_lost_settles_nothing(backend, raw, clock, holder):
    lost = a_lease(backend)
    backend.settle([Settlement.nack(lost, 0, failure=a_failure())])
    backend.open_session(a_session(holder))
    (held,) = backend.turn(a_turn(owner=holder, claim=Claim(queues=("default",), limit=1))).leases
    backend.open_session(a_session())
    before = contents(raw)
    acked = [lost.envelope.id], [lost.token], False

    assert (held.envelope.id, held.owner, held.token) == (lost.envelope.id, holder, lost.token + 1)
    assert backend._run("turn_usual", clock.micros(), "worker", (), 0, {}, *acked) is None
    assert contents(raw) == before


# Retries that are due at once


def retried(backend, *, queue="default", claims=("default",), **envelope):
    """The answer of a turn that fails a job, to be retried at once, and claims."""
    lease = a_lease(backend, **envelope)
    failed = Settlement.nack(lease, 0, failure=a_failure())
    backend.enqueue([an_envelope(queue=queue)])
    result = backend.turn(a_turn(failed, claim=Claim(queues=claims, limit=9)))
    assert [each.state for each in result.settled] == [State.RETRYABLE]
    return lease.envelope.id, result


@pytest.mark.parametrize("options", [{}, {"unique_key": "k"}, {"single_instance": "s"}])
def test_a_retry_at_once_is_claimed_by_the_turn_that_settles_it_and_counts_as_promoted(backend, options):
    job_id, result = retried(backend, **options)

    assert job_id in ids(result.leases)
    assert result.promoted == 1
    assert backend.counts()[State.EXECUTING] == 2


def test_a_retry_at_once_waits_where_its_queue_is_paused(backend):
    lease = a_lease(backend)
    backend.pause("default")
    job_id, failed = lease.envelope.id, Settlement.nack(lease, 0, failure=a_failure())
    result = backend.turn(a_turn(failed, claim=Claim(queues=("default",), limit=9)))
    assert (result.leases, result.promoted) == ([], 0)
    assert backend.get(job_id).state is State.RETRYABLE


def test_a_retry_at_once_waits_where_no_job_of_its_queue_is_claimed(backend):
    job_id, result = retried(backend, queue="mail", claims=("mail",))

    assert job_id not in ids(result.leases)
    assert result.promoted == 0
    assert backend.get(job_id).state is State.RETRYABLE


# Plain retries, many at once


def a_failing_story(seed):
    """Turns in which many runs fail; and now and then any other step."""
    chance, steps, queues = random.Random(seed), [], QUEUES[:3]
    for _ in range(40):
        options = chance.choice(ODD) if chance.random() < 0.1 else {}
        steps.append(
            (
                [an_envelope(queue=chance.choice(queues), **options) for _ in range(chance.randrange(5))],
                [chance.choice(["retry", "retry", "retry", *ENDS, *SETTLEMENTS]) for _ in range(8)],
                chance.randrange(6),
                chance.choice([queues, queues[:1]]),
                chance.choice(["pause", "resume", "cancel", "wait", "stale"]) if chance.random() < 0.3 else None,
                chance.choice([a_failure(), Failure("é", "\n".join("long" * 30), "t" * 70_000, "")]),
                chance.choice([None, RanBy("web", 5), RanBy("a host with a long name", 4711, "2026.11")]),
            )
        )
    return steps


def twice(lease, failure, by):
    return [Settlement.nack(lease, 0, failure=failure, by=by), Settlement.ack(lease)]


def by_another(lease, failure, by):
    return [under(Settlement.nack(lease, 0, failure=failure, by=by), "another")]


ENDS = {
    "ack": lambda lease, failure, by: [Settlement.ack(lease)],
    "retry": lambda lease, failure, by: [Settlement.nack(lease, 0, failure=failure, duration_ms=7, by=by)],
    "soon": lambda lease, failure, by: [Settlement.nack(lease, 0.5, failure=failure)],
    "later": lambda lease, failure, by: [Settlement.nack(lease, 2.5, failure=failure, duration_ms=70_000)],
    "spent": lambda lease, failure, by: [Settlement.nack(lease, 0, failure=failure, spent="it failed for good")],
    "twice": twice,
    "by another": by_another,
}


def ends(how, lease, failure, by):
    return ENDS[how](lease, failure, by) if how in ENDS else [settled(how, lease)]


def told_of_failures(backend, clock, story, wakes):
    """What a worker is answered, step by step, and who is woken."""
    backend.open_session(a_session(lease_for=10**6))
    held, old, answers = [], [], []
    for envelopes, hows, limit, queues, other, failure, by in story:
        if envelopes:
            backend.enqueue(envelopes)
        if other in ("pause", "resume"):
            backend.pause("mail", paused=other == "pause")
        elif other == "cancel" and held:
            backend.cancel([held[0].envelope.id], "enough")
        elif other == "wait":
            clock.advance(3)
        over = held[: len(hows) - 1]
        settlements = [each for how, lease in zip(hows, over, strict=False) for each in ends(how, lease, failure, by)]
        if other == "stale":
            settlements += [Settlement.nack(lease, 0, failure=failure) for lease in old[-2:]]
        result = backend.turn(a_turn(*settlements, claim=Claim(queues=queues, limit=limit) if limit else None))
        answers.append((result, wakes()))
        held = held[len(over) :] + result.leases
        old += over
    return answers


@pytest.mark.parametrize("seed", range(6))
def test_failed_runs_together_leave_what_each_alone_does(open_backend, raw, clock, monkeypatch, wakes, seed):
    story, start = a_failing_story(seed), clock.now()
    together = told_of_failures(open_backend(), clock, story, wakes)
    found = contents(raw)
    raw.flushall()
    clock.set(start)
    monkeypatch.setattr(turning, "is_plain_retry", lambda _: False)

    assert told_of_failures(open_backend(), clock, story, wakes) == together
    assert contents(raw) == found


def test_a_failure_that_many_runs_have_in_common_travels_once(backend):
    leases = [a_lease(backend) for _ in range(9)]
    failed = [Settlement.nack(lease, 0, failure=SHARED) for lease in leases]
    one, nine = (turning.Outgoing(some, "worker") for some in (failed[:1], failed))

    assert one.bytes == nine.bytes
    backend.open_session(a_session())
    assert [each.state for each in backend.turn(a_turn(*failed)).settled] == [State.RETRYABLE] * 9
    assert [backend.get(each.envelope.id).runs[0].failure for each in leases] == [SHARED] * 9


def test_runs_that_fail_in_one_turn_are_on_record_by_their_own_claims(backend):
    first, snoozed = a_lease(backend), a_lease(backend)
    backend.turn(a_turn(Settlement.snooze(snoozed, 0)))
    (second,) = backend.turn(a_turn(claim=Claim(queues=("default",), limit=1))).leases
    assert (first.token, second.token) == (1, 2)

    backend.turn(a_turn(*(Settlement.nack(lease, 0, failure=SHARED) for lease in (first, second))))

    assert [backend.get(each.envelope.id).runs[0].token for each in (first, second)] == [1, 2]


def test_runs_that_fail_in_one_turn_are_on_record_with_their_own_failures(backend):
    other, by = Failure("KeyError", "no key", "another traceback", "ba9876543210"), RanBy("web", 5)
    noted = [(SHARED, 3, None), (other, 3, None), (SHARED, 4, None), (SHARED, 3, by), (SHARED, 3, None)]
    leases = [a_lease(backend) for _ in noted]
    failed = [
        Settlement.nack(lease, 0, failure=failure, duration_ms=duration, by=by)
        for lease, (failure, duration, by) in zip(leases, noted, strict=True)
    ]

    backend.turn(a_turn(*failed))

    runs = [backend.get(lease.envelope.id).runs[0] for lease in leases]
    assert [(run.failure, run.duration_ms, run.by) for run in runs] == noted


SHARED = Failure("ValueError", "no route", "a long traceback", "0123456789ab")


@pytest.mark.parametrize("damage", [b"", b"\x03", b"no record at all, but long enough to be one of them, by its bytes"])
def test_a_failed_run_of_a_damaged_record_is_not_cut_and_joined(backend, raw, damage):
    lease, whole = a_lease(backend), a_lease(backend)
    raw.hset("{onward}:jobs", lease.envelope.id, raw.hget("{onward}:jobs", lease.envelope.id)[:40] + damage)
    failed = [Settlement.nack(each, 0, failure=SHARED) for each in (lease, whole)]
    first, second = backend.turn(a_turn(*failed)).settled

    assert not first.applied
    assert second.state is State.RETRYABLE
    assert raw.hget("{onward}:runs:" + lease.envelope.id, "1") is None


def test_a_failed_run_of_a_record_that_ends_behind_what_changes_is_not_cut_and_joined(backend, raw):
    lease = a_lease(backend)
    record, changing = raw.hget("{onward}:jobs", lease.envelope.id), fresh("default", 0)
    raw.hset("{onward}:jobs", lease.envelope.id, record[: record.index(changing) + len(changing)])

    (answer,) = backend.turn(a_turn(Settlement.nack(lease, 0, failure=SHARED))).settled

    assert not answer.applied


def test_the_answer_of_a_full_claim_leaves_the_server_at_once(backend, raw):
    """What exceeds some 64 KiB waits until the server has run the next script, of another worker."""
    at_once = 80_000  # bytes: four of the blocks that the server writes together, the last of which passes 64 KiB
    payload = {"id": 12345, "user": "user-345", "kind": "email", "sent": 0}
    claim = a_claim(limit=backend.claims_at_once)
    backend.open_session(a_session())
    backend.enqueue(some_envelopes(claim.limit, payload=payload))

    def sent(call):
        before = raw.info("stats")["total_net_output_bytes"]
        call()
        return raw.info("stats")["total_net_output_bytes"] - before

    question = sent(lambda: None)
    answer = sent(lambda: backend.turn(a_turn(claim=claim))) - question

    assert 200 * claim.limit < answer < at_once
