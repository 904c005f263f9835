"""Flows of a broker with a store: the store keeps them, and a job gets its message when its node opens, and not before."""

import logging
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from onward import JobContext, Onward, PayloadTooLarge
from onward.backend import Query, Settlement, Turn
from onward.errors import BackendUnavailable, Unsupported
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_session, an_envelope, ids
from onward.testing.contract.flow_stage import FlowStage, Part, abandon, ack
from tests.backends.companion.test_kills import Mortals
from tests.waiting import eventually


def messages(backend, queue=None):
    """Return how many messages the broker has."""
    return sum(backend.broker.counts(queue).values())


def cut(monkeypatch, one, *verbs):
    def away(*args, **kwargs):
        raise BackendUnavailable("it is away")

    for verb in verbs:
        monkeypatch.setattr(one, verb, away)
    return monkeypatch.undo


# Messages


def test_a_pair_keeps_flows_if_its_store_does(backend):
    assert backend.capabilities.flows is backend.store.capabilities.flows is True


def test_a_member_gets_its_message_when_its_node_opens(backend, clock):
    stage = FlowStage(backend, clock, a=Part(2), b=Part(3, "a"))
    assert [messages(backend, queue) for queue in "ab"] == [2, 0]

    first, last = stage.claim("a")
    backend.settle([ack(first)])
    assert [messages(backend, queue) for queue in "ab"] == [1, 0]
    backend.settle([ack(last)])

    assert [messages(backend, queue) for queue in "ab"] == [0, 3]
    stage.end("b", ack)
    assert (stage.state(), messages(backend)) == ("completed", 0)


def test_a_turn_that_settles_and_claims_gets_what_it_opens(backend, clock):
    stage = FlowStage(backend, clock, a=Part(), b=Part(2, "a"))
    (lease,) = stage.claim("a")

    made = backend.turn(Turn(owner="worker", settlements=[ack(lease)], claim=a_claim(queues=("b",), limit=9)))

    assert ids(made.leases) == ids(stage.envelopes["b"])


def test_the_message_of_a_member_with_a_delay_comes_when_that_has_passed(backend, clock):
    stage = FlowStage(backend, clock, a=Part(), b=Part(0, "a"))
    (lease,) = stage.claim("a")
    backend.grow(lease, stage.make("b", delay=60))

    backend.settle([ack(lease)])

    assert backend.broker.counts("b")[State.SCHEDULED] == 1
    clock.advance(59)
    assert stage.claim("b") == []
    clock.advance(2)
    assert len(stage.claim("b")) == 1


def test_what_a_running_job_adds_to_its_own_node_gets_a_message_at_once(backend, clock):
    stage = FlowStage(backend, clock, a=Part(), b=Part(0, "a"))
    (lease,) = stage.claim("a")

    answers = backend.grow(lease, [*stage.make("a", 2), *stage.make("b", 2)])

    assert [answer.created for answer in answers] == [True] * 4
    assert messages(backend, "b") == 0
    assert len(stage.claim("a", owner="other")) == 2


def test_what_is_added_from_outside_gets_a_message_and_the_end_opens_what_comes_after(backend, clock):
    stage = FlowStage(backend, clock, a=Part(), b=Part(after="a"), closed=False)
    backend.extend_flow(stage.id, stage.make("a", 2))
    stage.end("a", ack)
    assert messages(backend) == 0

    assert backend.close_flow(stage.id)

    assert len(stage.claim("b")) == 1


def test_a_job_that_is_cancelled_opens_what_waits_for_that(backend, clock):
    stage = FlowStage(backend, clock, a=Part(), b=Part(after="a", when="failed"), c=Part(after="a"))

    assert list(backend.cancel(ids(stage.envelopes["a"]), "no")) == [State.CANCELLED]

    assert len(stage.claim("b")) == 1
    assert stage.claim("a") == stage.claim("c") == []


@pytest.mark.parametrize("owner", ["doomed", None])
def test_a_crash_too_many_opens_what_waits_for_that(backend, clock, owner):
    backend.open_session(a_session())  # that of the other claims
    stage = FlowStage(backend, clock, letter={"max_crashes": 1}, a=Part(), b=Part(after="a", when="failed"))
    stage.claim("a", owner="doomed")
    clock.advance(3600)

    (reaped,) = backend.reap(owner=owner)

    assert reaped.to is State.DISCARDED
    assert len(stage.claim("b", owner="another")) == 1


def test_what_expires_opens_what_waits_for_that(backend, clock):
    stage = FlowStage(backend, clock, a=Part(0), b=Part(after="a", when="failed"), closed=False)
    backend.extend_flow(stage.id, stage.make("a", expires_at=clock.micros() + 60_000_000))
    backend.close_flow(stage.id)
    clock.advance(61)

    assert stage.claim("a") == []

    assert len(stage.claim("b")) == 1


def test_a_flow_that_is_retried_gets_its_messages(backend, clock):
    stage = FlowStage(backend, clock, a=Part(2), b=Part(after="a"))
    stage.end("a", ack, abandon)
    assert messages(backend) == 0

    assert backend.retry_flow(stage.id) == 2

    assert [messages(backend, queue) for queue in "ab"] == [1, 0]
    stage.end("a", ack)
    stage.end("b", ack)
    assert stage.state() == "completed"


def test_a_member_that_is_replayed_waits_for_its_node_without_a_message(backend, clock):
    stage = FlowStage(backend, clock, a=Part(2), b=Part(after="a"))
    stage.end("a", abandon)

    replayed = backend.replay(Query(ids=(stage.envelopes["a"][0].id,)))

    assert replayed.ids == [stage.envelopes["a"][0].id]
    assert [messages(backend, queue) for queue in "ab"] == [1, 0]
    stage.end("a", ack)
    assert stage.states() == {"a": "failed", "b": "passed_over"}


def test_a_cancelled_flow_leaves_the_broker_when_its_messages_come(backend, clock):
    stage = FlowStage(backend, clock, a=Part(2), b=Part(after="a"))

    assert backend.cancel_flow(stage.id, "no")

    assert stage.claim("a") == []
    assert (messages(backend), stage.state()) == (0, "cancelled")


def test_an_enqueue_that_is_repeated_puts_no_message_about_what_waits(backend, clock, monkeypatch):
    mend = cut(monkeypatch, backend.broker, "enqueue")
    with pytest.raises(BackendUnavailable):
        FlowStage(backend, clock, a=Part(), b=Part(after="a"))
    mend()
    (row,) = backend.flows()
    members = backend.list(Query(flow=row.id))
    assert (len(members), messages(backend)) == (2, 0)

    stage = FlowStage(backend, clock, a=Part(2), b=Part(3, "a"))
    backend.enqueue(stage.all, retried=True)

    assert [messages(backend, queue) for queue in "ab"] == [4, 0]  # two of each: one of them is removed when it comes
    stage.end("a", ack)
    stage.end("b", ack)
    assert stage.state() == "completed"


def test_a_message_about_a_job_whose_node_waits_is_removed(backend, clock):
    stage = FlowStage(backend, clock, a=Part(), b=Part(after="a"))
    backend.broker.enqueue(stage.envelopes["b"])

    assert stage.claim("b") == []

    assert messages(backend, "b") == 0
    stage.end("a", ack)
    assert len(stage.claim("b")) == 1


def test_a_member_that_the_broker_would_not_take_is_refused_before_anything_is_stored(backend, clock):
    large = {"text": "x" * 70_000}
    with pytest.raises(PayloadTooLarge):
        FlowStage(backend, clock, a=Part(0), b=Part(after="a"), letter={"payload": large})
    assert (list(backend.flows()), sum(backend.counts().values()), messages(backend)) == ([], 0, 0)

    stage = FlowStage(backend, clock, a=Part(), b=Part(0, "a"))
    (lease,) = stage.claim("a")
    with pytest.raises(PayloadTooLarge):
        backend.grow(lease, stage.make("b", payload=large))
    assert stage.jobs("b") == []


def test_a_flow_that_the_broker_refuses_leaves_no_trace(backend, clock, monkeypatch):
    """It said beforehand that it would take it."""

    def refuse(*args, **kwargs):
        raise PayloadTooLarge(2, 1)

    monkeypatch.setattr(backend.broker, "enqueue", refuse)

    with pytest.raises(PayloadTooLarge):
        FlowStage(backend, clock, a=Part(2), b=Part(after="a"), closed=False)

    assert sum(backend.counts().values()) == 0
    assert list(backend.flows()) == []


def test_a_plain_job_asks_the_store_nothing_more(backend, monkeypatch):
    asked = []
    for verb in ("get", "get_many", "flow", "flows", "list"):
        monkeypatch.setattr(backend.store, verb, lambda *args, verb=verb, **options: asked.append(verb))

    backend.enqueue([an_envelope()])
    (lease,) = backend.claim(a_claim())
    backend.settle([Settlement.ack(lease)])

    assert asked == []


# The sweep as the net


def test_what_opened_while_the_broker_was_away_gets_its_message_from_the_sweep(backend, clock, monkeypatch):
    stage = FlowStage(backend, clock, a=Part(), b=Part(250, "a"), c=Part(3, "b"))
    (lease,) = stage.claim("a")
    mend = cut(monkeypatch, backend.broker, "enqueue", "turn")
    assert backend.settle([ack(lease)])[0].applied
    mend()
    assert (stage.states()["b"], messages(backend, "b")) == ("open", 0)

    clock.advance(61)
    backend.reap()

    assert (messages(backend, "b"), messages(backend, "c")) == (250, 0)


def test_the_sweep_finds_a_lost_message_though_many_jobs_wait_for_their_nodes(backend, clock):
    letter = {"queue": "one"}  # all nodes in one queue
    stage = FlowStage(backend, clock, a=Part(4), b=Part(500, "a"), letter=letter)
    (lease,) = backend.broker.claim(a_claim(owner="thief", queues=("one",)))
    backend.broker.settle([Settlement.ack(lease)])
    clock.advance(61)

    backend.reap()

    assert messages(backend, "one") >= 4
    assert sorted(ids(stage.claim("one"))) == ids(stage.envelopes["a"])


def test_jobs_that_wait_for_their_nodes_are_not_missed(backend, clock, caplog):
    letter = {"queue": "one"}
    FlowStage(backend, clock, a=Part(2), b=Part(50, "a"), letter=letter)

    for _ in range(5):
        clock.advance(601)
        with caplog.at_level(logging.WARNING, logger="onward.companion"):
            backend.reap()

    assert messages(backend, "one") == 2
    assert caplog.messages == []
    (check,) = (check for check in backend.health() if check.name == "messages")
    assert check.status == "ok"


# Kills


@pytest.mark.promise("W71", "F66")
def test_a_flow_goes_on_wherever_the_turn_that_opens_a_node_is_cut_off(open_pair, clock, report):
    mortals = Mortals(open_pair, clock)

    def last_of_its_node(backend):
        stage = FlowStage(backend, clock, a=Part(), b=Part(3, "a"), letter={"queue": "default"})
        (lease,) = stage.claim("default")
        return stage, lease

    deaths = 0
    for (stage, lease), done in mortals.deaths(last_of_its_node, lambda backend, made: backend.settle([ack(made[1])])):
        members = ids(stage.envelopes["b"])
        runs, states = mortals.finish([lease.envelope.id, *members])
        assert set(states.values()) == {State.COMPLETED}, done
        assert [runs[each] for each in members] == [1, 1, 1]
        assert runs[lease.envelope.id] == (0 if "turn" in done else 1)
        deaths += 1
    report(f"companion flows: {deaths} deaths of a turn that opens a node, 0 lost, 0 run twice")


@pytest.mark.promise("W71", "F66")
def test_a_flow_that_is_enqueued_by_a_process_that_dies_runs_whole_or_not_at_all(open_pair, clock):
    mortals = Mortals(open_pair, clock)
    stages = []

    def enqueue(backend, _):
        stage = FlowStage.__new__(FlowStage)
        stages.append(stage)
        stage.__init__(backend, clock, a=Part(2), b=Part(after="a"), letter={"queue": "default"})

    outcomes = set()
    for _, done in mortals.deaths(lambda backend: None, enqueue):
        members = ids(stages[-1].all)
        runs, _states = mortals.finish(members)
        assert set(runs.values()) in ({0}, {1})
        assert (set(runs.values()) == {1}) is ("enqueue" in done)
        outcomes |= set(runs.values())
    assert outcomes == {0, 1}


@pytest.fixture
def store(tmp_path):
    return f"sqlite:///{tmp_path / 'onward.db'}"


@pytest.mark.promise("W71", "F66")
def test_a_worker_that_is_killed_under_its_flow_leaves_it_to_the_next(server, store, tmp_path, report):
    """`onward worker` with two processes: one is killed by a member, and another by the job that joins them."""
    server.empty()
    (tmp_path / "shop.py").write_text(
        textwrap.dedent(
            """
            import os, signal
            from pathlib import Path
            from onward import JobContext, Onward

            jobs = Onward(os.environ["SHOP"])
            here = Path(os.environ["HERE"])

            def killed_once(name):
                try:
                    (here / f"killed-{name}").touch(exist_ok=False)
                except FileExistsError:
                    return
                os.kill(os.getpid(), signal.SIGKILL)

            @jobs.job
            def work(number: int) -> int:
                if number == 20:
                    killed_once("member")
                return number

            @jobs.job
            def join(ctx: JobContext) -> int:
                killed_once("join")
                return sum(ctx.results_of(work))
            """
        )
    )
    environment = os.environ | {
        "SHOP": server.url(),
        "HERE": str(tmp_path),
        "PYTHONPATH": str(tmp_path),
        "ONWARD_STORE": "sqlite:///onward.db",
    }
    command = [sys.executable, "-m", "onward", "worker", "shop:jobs", "--processes", "2", "--concurrency", "4"]
    with Onward(server.url(), store=store) as jobs:

        @jobs.job
        def work(number: int) -> int: ...

        @jobs.job
        def join(ctx: JobContext) -> int: ...

        flow = jobs.flow("sums")
        last = flow.add(join, after=flow.map(work, [(number,) for number in range(60)]))
        handle = flow.enqueue()
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        try:
            eventually(
                lambda: handle.state() == "completed",
                what=lambda: f"{handle.counts()} {(tmp_path / 'log').read_text()}",
            )
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, (tmp_path / "log").read_text()
        assert handle.result_of(last) == sum(range(60))
        crashes = sum(record.crashes for record in jobs.list(limit=100))
    assert sorted(path.name for path in tmp_path.glob("killed-*")) == ["killed-join", "killed-member"]
    report(f"companion onward worker: a flow of 61 jobs, two processes killed, {crashes} crashes counted")


# Applications


@pytest.fixture
def jobs(server, store):
    server.empty()
    with Onward(server.url(), store=store) as jobs:
        yield jobs


def test_a_flow_that_a_schedule_starts(jobs, server):
    ran = []

    @jobs.job
    def note(word: str) -> None:
        ran.append(word)

    jobs.schedules.create("often", "@every 1s", jobs.chain(note.call("one"), note.call("two")), overlap="skip")

    eventually(lambda: jobs.drain("default") and len(ran) >= 4)

    assert ran[:4] == ["one", "two", "one", "two"]


def test_a_batch_and_a_flow_that_grows(jobs):
    ran = []

    @jobs.job
    def note(word: str) -> None:
        ran.append(word)

    @jobs.job
    def split(ctx: JobContext) -> None:
        ctx.flow.map(note, [("left",), ("right",)], node="parts")

    flow = jobs.flow("growing")
    flow.add(note, "last", after=flow.node("parts", after=flow.add(split)), node="last")
    handle = flow.enqueue()
    jobs.drain("default")
    assert (ran, handle.state()) == (["left", "right", "last"], "completed")

    ran.clear()
    with jobs.batch("import", on_success=note.call("done")) as batch:
        batch.add_many(note, ((str(number),) for number in range(1_050)))
    jobs.drain("default")
    assert ran[-1] == "done"
    assert sorted(ran[:-1], key=int) == [str(number) for number in range(1_050)]
    assert batch.handle.state() == "completed"


def test_a_broker_without_a_store_refuses_flows_and_names_the_fix(server):
    server.empty()
    with Onward(server.url()) as jobs:

        @jobs.job
        def note(word: str) -> None: ...

        builds = (
            lambda: jobs.flow("a"),
            lambda: jobs.chain(note.call("a")),
            lambda: jobs.batch("a"),
            jobs.flows.list,
            lambda: jobs.flows.get("x"),
        )
        for build in builds:
            with pytest.raises(Unsupported, match=r'keeps no flows .*store="sqlite:///onward\.db"\) or ONWARD_STORE'):
                build()
        assert sum(jobs.backend.counts().values()) == 0
