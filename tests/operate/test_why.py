"""One reason for every job, the one that binds, with what to type."""

import time
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from onward import Fixed, JobContext, Limit, Onward
from onward.backend import (
    AWAITS_NODE,
    Claim,
    JobPlace,
    KeyHolder,
    LimitRow,
    LimitState,
    QueueCounts,
    Session,
    SessionState,
    StoredJob,
    Turn,
)
from onward.base.clock import SECOND
from onward.contract.description import LARGEST_DESCRIPTION, WorkerDescription
from onward.flow.limits import Bounds, rate_of
from onward.flow.room import FOREVER
from onward.job.states import LIVE, State
from onward.operate.why.case import Besides, Case, DeadGroup, Described, KnownSettings
from onward.operate.why.reason import CODES
from onward.operate.why.rules import RULES, why
from onward.testing import FakeClock

NOW = FakeClock().micros()
SERVING = WorkerDescription(queues=("default",), concurrency=10, jobs=("work",))


def a_job(**fields):
    plain = {"id": "0" * 32, "queue": "default", "job": "work", "data": b"", "state": State.AVAILABLE, "priority": 0}
    counters = dict.fromkeys(("attempts", "delivery", "crashes", "interruptions"), 0)
    return StoredJob(**plain | counters | {"available_at": NOW, "enqueued_at": NOW} | fields)


def a_worker(description=SERVING, *, owner="w", expires_in=30, leases=0):
    session = SessionState(
        owner=owner,
        lease_for=timedelta(seconds=30),
        host="here",
        pid=1,
        version="1",
        expires_at=NOW + expires_in * SECOND,
        leases=leases,
    )
    return Described(session, description)


def a_queue(name="default", *, paused=False, **counts):
    numbers = {State(state): number for state, number in counts.items()}
    return QueueCounts(
        name=name, paused=paused, counts=dict.fromkeys(LIVE, 0) | numbers, paused_at=NOW if paused else None
    )


def a_limit(kind="job", *, bound=None, **state):
    return LimitState(row=LimitRow(kind=kind, name="work", declared=Bounds(running=bound)), **state)


def a_case(job=None, *, ahead=0, holders=(), limits=(), workers=None, queues=(), besides=None, settings=None):
    place = JobPlace(job=job or a_job(), ahead=ahead, holders=holders, limits=limits)
    workers = [a_worker()] if workers is None else workers
    return Case(place.job.id, NOW, place, None, queues=queues, sessions=workers, besides=besides, settings=settings)


PARKED = {"state": State.SCHEDULED, "parked_since": NOW, "waits": 1, "available_at": NOW + SECOND}
LATER = {"state": State.SCHEDULED, "available_at": NOW + 60 * SECOND}
RUNNING = {"state": State.EXECUTING, "owner": "w", "started_at": NOW}

# Every code, by a job that it holds.
STORIES = {
    "gone": lambda: Case("0" * 32, NOW, None, None),
    "completed": lambda: a_case(a_job(state=State.COMPLETED, finished_at=NOW)),
    "discarded": lambda: a_case(a_job(state=State.DISCARDED, finished_at=NOW, reason="gave up")),
    "cancelled": lambda: a_case(a_job(state=State.CANCELLED, finished_at=NOW, reason="expired")),
    "worker_gone": lambda: a_case(a_job(**RUNNING), workers=[]),
    "worker_silent": lambda: a_case(a_job(**RUNNING), workers=[a_worker(expires_in=-1)]),
    "cancelling": lambda: a_case(a_job(**RUNNING, cancel_reason="no longer needed")),
    "running": lambda: a_case(a_job(**RUNNING)),
    "expired": lambda: a_case(a_job(expires_at=NOW)),
    "spent": lambda: a_case(a_job(state=State.RETRYABLE, spent="gave up")),
    "unknown_job": lambda: a_case(a_job(**PARKED, job="wrok")),
    "wrong_version": lambda: a_case(a_job(**PARKED), besides=Besides(key_id="k2")),
    "held": lambda: a_case(
        a_job(**LATER, waits=1), holders=(KeyHolder(key="k", single_instance=False, job_id="1" * 32),)
    ),
    "awaits_flow": lambda: a_case(a_job(**LATER, awaits=AWAITS_NODE, flow="f", node="n")),
    "awaits_signal": lambda: a_case(a_job(**LATER, awaits="paid")),
    "sleeping": lambda: a_case(a_job(**LATER, delivery=1), besides=Besides(sleeps=("nap",))),
    "not_due": lambda: a_case(a_job(**LATER)),
    "paused": lambda: a_case(queues=[a_queue(paused=True)]),
    "unserved": lambda: a_case(workers=[]),
    "not_allowed": lambda: a_case(workers=[a_worker(replace(SERVING, allowed={"default": ("other",)}))]),
    "shut": lambda: a_case(limits=(a_limit(shut_until=FOREVER),)),
    "limited": lambda: a_case(limits=(a_limit(bound=2, running=2),)),
    "throttled": lambda: a_case(limits=(a_limit(tokens=0, opens_at=NOW + SECOND),)),
    "suspect": lambda: a_case(a_job(crashes=1), ahead=3),
    "busy": lambda: a_case(workers=[a_worker(leases=10)]),
    "starved": lambda: a_case(
        workers=[a_worker(replace(SERVING, queues=("mail", "default")))], queues=[a_queue("mail", available=7)]
    ),
    "behind": lambda: a_case(ahead=3),
    "first_in_line": a_case,
}


@pytest.mark.promise("S127")
@pytest.mark.parametrize("code", CODES)
def test_every_code_has_its_story_and_says_what_to_do(code):
    reason = why(STORIES[code]())

    assert reason.code == code, reason
    assert reason.text.endswith((".", ")"))
    assert reason.fix or reason.until or code in ("completed", "behind", "first_in_line")


DEAD = {"state": State.DISCARDED, "finished_at": NOW, "attempts": 3}


@pytest.mark.parametrize(
    "reason", ["gave up", "crashed 3 times", "job is not registered", "is not allowed", "no such key"]
)
def test_a_dead_job_is_replayed_by_a_canary_where_the_store_groups_dead_jobs(reason):
    group = DeadGroup("work", "3fa9c2d1e0b7", 1_000, or_more=True, since=NOW)
    grouped = why(a_case(a_job(**DEAD, reason=reason), besides=Besides(group=group)))
    alone = why(a_case(a_job(**DEAD, reason=reason)))

    assert "`onward dead canary --job work --group 3fa9c2d1e0b7`" in grouped.fix
    assert "It is one of 1,000 or more that died so" in grouped.text
    assert f"`onward job retry {'0' * 32}`" in alone.fix
    assert "group" not in alone.facts


def test_a_job_that_its_workers_know_was_put_back_because_its_arguments_do_not_fit():
    reason = why(a_case(a_job(**PARKED)))

    assert reason.code == "wrong_version"
    assert "its arguments do not fit" in reason.text
    assert "onward check-deploy" in reason.fix


def test_runs_and_crashes_of_a_dead_job_are_counted_in_words():
    once, twice = ({**DEAD, "attempts": runs, "crashes": runs - 1, "reason": "gave up"} for runs in (1, 2))

    assert "after 1 run: gave up." in why(a_case(a_job(**once))).text
    assert "after 2 runs and 1 crash: gave up." in why(a_case(a_job(**twice))).text


def test_a_tombstone_of_a_dead_job_cannot_be_replayed():
    assert why(a_case(a_job(**DEAD, reason="gave up", tombstone=True))).fix.startswith("enqueue it again")


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"k1": "a" * 64}, "TypeError: object has no JSON form: pass plain data, a dataclass or a pydantic model"),
        (None, "<encrypted with key k1>"),
    ],
    ids=["with the key", "without it"],
)
def test_a_job_that_ran_and_has_no_result_was_not_skipped(tmp_path, keys, told):
    url = f"sqlite:///{tmp_path / 'jobs.db'}?durability=relaxed"
    with Onward(url, signing_keys={"k1": "a" * 64}, encryption=True) as jobs:

        @jobs.job
        def work():
            return object()

        handle = work.enqueue()
        jobs.drain()

    with Onward(url, signing_keys=keys) as jobs:
        text = jobs.why(handle.id).text

    assert text.startswith("It completed at ")
    assert text.endswith(f", with no result: {told}.")


def test_a_job_whose_key_was_done_by_another_after_it_had_failed_was_skipped():
    clock = FakeClock()
    with Onward("memory://", clock=clock) as jobs:

        @jobs.job(max_retries=1, retry=Fixed(60))
        def work(fails: bool):
            if fails:
                raise ValueError("broken")

        skipped = work.using(idempotency_key="once").enqueue(fails=True)
        jobs.drain()
        other = work.using(idempotency_key="once").enqueue(fails=False)
        jobs.drain()
        clock.advance(61)
        jobs.drain()
        reason = jobs.why(skipped.id)

    assert reason.text.startswith("It was skipped at ")
    assert reason.text.endswith(f": its idempotency key was done by job {other.id}.")
    assert reason.facts["attempts"] == 1


@pytest.mark.promise("S128")
def test_a_job_that_is_due_much_later_waits_for_its_time_and_not_for_a_token_of_its_key():
    jobs = Onward("memory://", clock=FakeClock())

    @jobs.job(limit=Limit(rate="1/min", by="tenant"))
    def render(tenant: str) -> None: ...

    with jobs:
        declared = LimitRow(kind="key", name="render", declared=Bounds(rate=rate_of("1/min", None)))
        jobs.backend.open_session(Session(owner="w", limits=(declared,)))
        render.enqueue("acme")
        claim = Turn(owner="w", claim=Claim(queues=("default",), limit=5))
        assert len(jobs.backend.turn(claim).leases) == 1
        tomorrow, now = render.using(delay="1d").enqueue("acme"), render.enqueue("acme")
        jobs.backend.turn(claim)

        assert jobs.why(now.id).then[0] == "throttled", "booked for its token"
        reason = jobs.why(tomorrow.id)
        assert (reason.code, reason.until) == ("not_due", jobs.get(tomorrow.id).available_at)


def test_the_codes_are_the_rules_in_their_order():
    assert tuple(rule.__name__ for rule in RULES) == CODES


@pytest.mark.promise("S127")
@given(
    state=st.sampled_from(State),
    due=st.integers(-5, 5),
    fields=st.fixed_dictionaries({
        "crashes": st.integers(0, 2),
        "waits": st.integers(0, 2),
        "parked_since": st.sampled_from((None, NOW)),
        "awaits": st.sampled_from((None, "", "go")),
        "spent": st.sampled_from((None, "gave up")),
        "cancel_reason": st.sampled_from((None, "stop")),
        "expires_at": st.sampled_from((None, NOW, NOW + 9)),
        "owner": st.sampled_from((None, "w", "x")),
        "lane": st.sampled_from((None, "work/")),
    }),
    ahead=st.integers(0, 2),
    limits=st.lists(
        st.sampled_from((a_limit(shut_until=FOREVER), a_limit(opens_at=NOW + 1), a_limit("key", shut_until=NOW + 9)))
    ),
    workers=st.lists(st.sampled_from((a_worker(), a_worker(None), a_worker(expires_in=-1), a_worker(leases=99)))),
    paused=st.booleans(),
)  # fmt: skip
def test_every_job_has_exactly_one_reason(state, due, fields, ahead, limits, workers, paused):
    job = a_job(state=state, available_at=NOW + due, **fields)

    reason = why(a_case(job, ahead=ahead, limits=tuple(limits), workers=workers, queues=[a_queue(paused=paused)]))

    assert reason.code in CODES
    assert reason.text
    assert [CODES.index(each) for each in reason.then] == sorted(CODES.index(each) for each in reason.then)
    assert all(CODES.index(reason.code) < CODES.index(each) for each in reason.then)


def test_the_obstacles_behind_the_first_are_named():
    reason = why(a_case(a_job(**LATER), ahead=2, limits=(a_limit(shut_until=FOREVER),), queues=[a_queue(paused=True)]))

    assert (reason.code, *reason.then) == ("not_due", "paused", "shut", "behind", "first_in_line")


def test_a_description_of_a_dead_session_counts_for_nothing():
    dead = a_worker(expires_in=0)

    assert why(a_case(workers=[dead])).code == "unserved"
    assert why(a_case(workers=[dead, a_worker(WorkerDescription(queues=("mail",)), owner="v")])).code == "unserved"


def test_a_session_without_a_description_serves_nothing_by_itself():
    assert why(a_case(workers=[a_worker(None)])).code == "unserved"


def test_a_pattern_serves_its_queues():
    by_pattern = a_worker(WorkerDescription(queues=("def*",), concurrency=1))

    assert why(a_case(workers=[by_pattern])).code == "first_in_line"


def test_weights_starve_no_queue():
    weighted = replace(SERVING, queues=("mail", "default"), weights={"mail": 3, "default": 1})

    assert why(a_case(workers=[a_worker(weighted)], queues=[a_queue("mail", available=7)])).code == "first_in_line"


def test_a_paused_queue_starves_no_other():
    strict = a_worker(replace(SERVING, queues=("mail", "default")))

    assert why(a_case(workers=[strict], queues=[a_queue("mail", paused=True, available=7)])).code == "first_in_line"


def test_one_worker_that_allows_a_job_is_enough():
    refusing = a_worker(replace(SERVING, allowed={"default": ("other",)}), owner="v")

    assert why(a_case(workers=[refusing, a_worker()])).code == "first_in_line"


def test_a_turn_is_estimated_from_a_rate_and_said_to_be():
    reason = why(a_case(ahead=30, besides=Besides(ended_per_second=2.0)))

    assert (reason.code, reason.exact) == ("behind", False)
    assert reason.until is not None
    assert "about 15 s" in reason.text


@pytest.mark.promise("S129")
def test_an_id_that_is_gone_tells_whether_retention_explains_it():
    retention = {State.COMPLETED: 60.0, State.DISCARDED: None}
    settings = KnownSettings(namespace="shop", store="sqlite:///x.db", retention=retention)

    def made(age):
        return f"{(NOW // 1000) - age * 1000:012x}" + "7" * 20

    young = why(Case(made(5), NOW, None, None, settings=settings))
    old = why(Case(made(3600), NOW, None, None, settings=settings))
    strange = why(Case("what", NOW, None, None, settings=settings))

    assert "nothing so young" in young.text
    assert "'shop' of sqlite:///x.db" in young.text
    assert "retention removes completed jobs after 1 min" in old.text
    assert "no job has such an id" in strange.text


def test_a_description_is_never_larger_than_a_store_keeps():
    names = tuple(f"job_{number}" for number in range(5_000))

    data = WorkerDescription(queues=("default",), jobs=names, allowed={"q": names}).encoded()
    plain = WorkerDescription.decoded(data)

    assert len(data) <= LARGEST_DESCRIPTION
    assert (plain.queues, plain.jobs, plain.allowed) == (("default",), None, None)
    assert WorkerDescription.decoded(b"{") is None


@pytest.fixture
def jobs():
    with Onward("memory://", clock=FakeClock(), queue_handlers={"ops": ["shell"]}) as jobs:
        yield jobs


def test_a_worker_describes_itself(jobs):
    @jobs.job
    def work() -> None: ...

    with jobs.worker(queues={"mail": 3, "default": 1}, concurrency=7, per_process={"mail": 2}):
        (session,) = jobs.backend.sessions()

    described = WorkerDescription.decoded(session.description)
    assert (described.queues, described.weights) == (("mail", "default"), {"mail": 3, "default": 1})
    assert (described.concurrency, described.per_process, described.strict) == (7, {"mail": 2}, False)
    assert "work" in described.jobs
    assert described.allowed == {"ops": ("shell",)}
    assert described.started == jobs.backend.clock.micros()


def test_a_job_that_waits_for_its_node_names_the_nodes_before(jobs):
    @jobs.job
    def work() -> None: ...

    flow = jobs.flow("publish")
    first = flow.add(work.call(), node="render")
    flow.add(work.call(), node="send", after=first)
    flow.enqueue()

    ids = {record.node: record.id for record in jobs.list()}
    reason = jobs.why(ids["send"])

    assert (reason.code, reason.facts["waits_for"]) == ("awaits_flow", ["render"])
    assert "'publish'" in reason.text


def test_sleeps_and_waits_for_signals_are_named(jobs):
    @jobs.job
    def nap(ctx: JobContext) -> None:
        ctx.sleep("nap", 60)

    @jobs.job
    def wait(ctx: JobContext) -> None:
        ctx.wait_for("paid", timeout=60)

    handles = nap.enqueue(), wait.enqueue()
    jobs.drain()

    sleeping, waiting = (jobs.why(handle.id) for handle in handles)

    assert (sleeping.code, sleeping.facts["sleep"]) == ("sleeping", "nap")
    assert (waiting.code, waiting.facts["signal"]) == ("awaits_signal", "paid")
    assert "onward job signal" in waiting.fix


def test_a_failed_run_says_when_it_is_tried_again(jobs):
    @jobs.job(max_retries=3)
    def fail() -> None:
        raise ValueError("no")

    handle = fail.enqueue()
    jobs.drain()

    reason = jobs.why(handle.id)

    assert reason.code == "not_due"
    assert "run 1 of 4 failed with" in reason.text
    assert reason.until == jobs.get(handle.id).available_at


def test_a_full_limit_is_named_while_a_worker_runs(jobs):
    began = []

    @jobs.job(limit=Limit(running=1))
    def hold(ctx: JobContext) -> None:
        began.append(ctx.id)
        while not ctx.cancelled:
            time.sleep(0.01)

    first, second = hold.enqueue(), hold.enqueue()
    with jobs.worker(concurrency=5):
        deadline = time.monotonic() + 20
        while not began and time.monotonic() < deadline:
            time.sleep(0.01)
        reason, runs = jobs.why(second.id), jobs.why(first.id)
        jobs.cancel(second.id)
        jobs.cancel(first.id)

    assert (reason.code, reason.facts["ids"]) == ("limited", [first.id])
    assert runs.code == "running"
    assert msgspec.json.encode(reason)
