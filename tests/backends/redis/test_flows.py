"""Flows on a server: steps of a thousand jobs, what a plain job pays for them, what the net finds, and damaged keys."""

import logging
from contextlib import suppress

import pytest

from onward.backend import Claim, Query, Settlement
from onward.backends.redis import RedisBackend
from onward.errors import BackendError, BackendRefused
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_lease, a_session, a_turn, an_envelope, ids
from onward.testing.contract.flow_stage import FlowStage, Part, abandon, ack
from tests.backends.flows_in_steps import RetriesInSteps
from tests.backends.redis.test_limits import commands
from tests.damage.corpus import HOSTILE

STEP = 1_000
MANY = 2 * STEP + 500
P = "{onward}:"
KINDS = ("flow", "flows", "members", "waiting", "finished")


def counts(stage, node):
    return stage.backend.member_counts(stage.id)[node]


def key(stage, kind, node=None):
    return f"{P}{kind}:{stage.id}" + ("" if node is None else f"\n{node}")


def keys(raw, *kinds):
    """The keys of these kinds, without the prefix."""
    names = [name.removeprefix(P.encode()).decode() for name in raw.keys(f"{P}*")]
    return sorted(name for name in names if name.partition(":")[0] in kinds)


class TestRetries(RetriesInSteps):
    """Every step is a script."""


class TestSteps:
    def test_a_large_node_opens_in_steps_that_its_own_jobs_take(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(MANY, "a"), c=Part(after="b"))

        stage.end("a", ack)

        assert counts(stage, "b") == {State.AVAILABLE: STEP, State.SCHEDULED: MANY - STEP}
        ended = 0
        while leases := stage.claim("b", limit=STEP):
            assert stage.states()["c"] == "waiting"
            backend.settle([ack(lease) for lease in leases])
            ended += len(leases)
        assert ended == MANY
        assert stage.states() == {"a": "completed", "b": "completed", "c": "open"}

    @pytest.mark.parametrize(("end", "reaches"), [(ack, {State.AVAILABLE: MANY}), (abandon, {State.CANCELLED: MANY})])
    def test_a_sweep_takes_the_steps_that_are_left_and_is_not_alarmed(self, backend, clock, caplog, end, reaches):
        stage = FlowStage(backend, clock, a=Part(), b=Part(MANY, "a"))
        stage.end("a", end)
        assert counts(stage, "b") != reaches
        assert stage.state() == "running"

        with caplog.at_level(logging.WARNING):
            backend.reap()

        assert counts(stage, "b") == reaches
        assert stage.state() == ("running" if end is ack else "failed")
        assert caplog.messages == []

    def test_a_cancelled_flow_has_no_job_left_that_could_start_when_the_call_returns(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(MANY), b=Part(MANY, "a", "finished"))
        running = stage.claim("a", limit=STEP + 1)

        assert backend.cancel_flow(stage.id, "not wanted")

        assert counts(stage, "a") == {State.EXECUTING: STEP + 1, State.CANCELLED: MANY - STEP - 1}
        assert counts(stage, "b") == {State.CANCELLED: MANY}
        assert len(backend.extend("worker").cancel_requested) == STEP + 1
        backend.settle([Settlement.cancelled(lease, "stopped") for lease in running])
        assert stage.state() == "cancelled"

    def test_a_large_flow_is_retried_and_completes(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(MANY, "a"), c=Part(2, "a", "failed"))
        stage.end("a", abandon)
        backend.reap()
        stage.end("c", ack)

        assert backend.retry_flow(stage.id) == MANY + 1

        stage.end("a", ack)
        while leases := stage.claim("b", limit=STEP):
            backend.settle([ack(lease) for lease in leases])
        assert counts(stage, "b") == {State.COMPLETED: MANY}
        assert stage.state() == "completed"

    def test_a_retry_whose_process_ends_between_two_steps_is_finished_by_the_sweep(self, backend, clock, caplog):
        stage = FlowStage(backend, clock, a=Part(MANY), b=Part(after="a"))
        backend.settle([abandon(lease) for lease in stage.claim("a")])
        backend._run("change_flow", clock.micros(), stage.id, "retry", None)  # the first step, and no other
        assert counts(stage, "a")[State.DISCARDED] == MANY - STEP
        leases = stage.claim("a")
        backend.settle([ack(lease) for lease in leases])
        assert stage.states() == {"a": "open", "b": "waiting"}, "what is not replayed yet keeps its node open"

        with caplog.at_level(logging.WARNING):
            backend.reap()

        assert caplog.messages == []
        while leases := stage.claim("a"):
            backend.settle([ack(lease) for lease in leases])
        assert counts(stage, "a") == {State.COMPLETED: MANY}
        assert stage.states() == {"a": "completed", "b": "open"}

    def test_a_member_of_a_large_node_that_is_still_passed_over_is_not_replayed(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(MANY, "a"))
        stage.end("a", abandon)
        backend.reap()
        child = stage.envelopes["b"][-1].id

        replayed = backend.replay(Query(ids=(child,)))

        assert (replayed.ids, replayed.skipped) == ([], {child: "node a failed"})
        assert counts(stage, "b") == {State.CANCELLED: MANY}
        assert stage.state() == "failed"

    def test_replaying_all_that_failed_runs_what_was_passed_over_in_steps(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(2), b=Part(MANY, "a"))
        stage.end("a", abandon)
        backend.reap()

        replayed = backend.replay(Query(flow=stage.id, node="a"))

        assert replayed.ids == ids(stage.envelopes["a"])
        assert counts(stage, "b") == {State.SCHEDULED: MANY}
        stage.end("a", ack)
        while leases := stage.claim("b", limit=STEP):
            backend.settle([ack(lease) for lease in leases])
        assert stage.state() == "completed"

    def test_members_are_counted_in_stretches_up_to_the_bound(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(MANY))

        assert backend.member_counts(stage.id) == {"a": {State.AVAILABLE: MANY}}
        assert backend.member_counts(stage.id, at_most=STEP + 1) == {"a": {State.AVAILABLE: STEP + 1}}

    def test_no_script_of_a_large_flow_takes_long(self, backend, clock, raw):
        """But the one write that stores it."""
        stage = FlowStage(backend, clock, a=Part(), b=Part(10 * STEP, "a"))
        raw.config_set("slowlog-log-slower-than", 0)
        raw.slowlog_reset()

        backend.cancel_flow(stage.id, "not wanted")
        backend.retry_flow(stage.id)
        backend.member_counts(stage.id)
        backend.reap()

        slowest = max(entry["duration"] for entry in raw.slowlog_get(1_000) if b"EVALSHA" in entry["command"])
        raw.config_set("slowlog-log-slower-than", 10_000)
        assert slowest < 500_000, "microseconds, on a busy machine: a tenth of that where it is idle"

    def test_a_sweep_looks_at_a_bounded_number_of_nodes_and_members_in_one_script(self, backend, clock, raw):
        stages = [FlowStage(backend, clock, **{f"n{place}": Part(60) for place in range(10)}) for _ in range(20)]
        read = []  # sets of members, by each script

        def run(name, *arguments, **others):
            answers = []
            ran = commands(raw, lambda: answers.append(RedisBackend._run(backend, name, *arguments, **others)))
            read.append(ran.get("zrange", 0))
            return answers[0]

        backend._run = run
        backend.reap()

        assert 0 < max(read) <= 60, "of 400"
        assert all(stage.states() == {f"n{place}": "open" for place in range(10)} for stage in stages)

    def test_a_sweep_in_many_scripts_leaves_no_flow_out(self, backend, clock, raw):
        stages = [FlowStage(backend, clock, **{f"n{place}": Part(60) for place in range(10)}) for _ in range(20)]
        for stage in stages:
            raw.delete(*(key(stage, "members", f"n{place}") for place in range(10)))  # as no script does

        backend.reap()

        assert [stage.state() for stage in stages] == ["completed"] * 20


class TestTheNet:
    def test_an_overlooked_end_is_found_by_the_net_which_says_so(self, backend, clock, raw, caplog):
        stage = FlowStage(backend, clock, a=Part(), b=Part(after="a"))
        raw.delete(key(stage, "members", "a"))  # as no script does
        assert stage.states() == {"a": "open", "b": "waiting"}

        backend.reap()

        assert stage.states() == {"a": "completed", "b": "open"}
        assert "should have gone on before" in caplog.text

    @pytest.mark.parametrize("kind", ["members", "waiting"])
    def test_a_member_that_is_listed_and_not_there_is_found_by_the_net(self, backend, clock, raw, caplog, kind):
        stage = FlowStage(backend, clock, a=Part(), b=Part(after="a"))
        (first,) = stage.end("a", ack)
        raw.zadd(key(stage, kind, "b"), {first.envelope.id: 0})
        (lease,) = stage.claim("b")

        backend.reap()

        assert "are listed that are not there" in caplog.text
        assert first.envelope.id.encode() not in raw.zrange(key(stage, kind, "b"), 0, -1)
        backend.settle([ack(lease)])
        assert stage.row().over_at == clock.micros()

    def test_scores_that_no_script_writes_are_found_by_the_net(self, backend, clock, raw, caplog):
        stage = FlowStage(backend, clock, a=Part(3), b=Part(after="a"))
        raw.zadd(key(stage, "members", "a"), {stage.envelopes["a"][0].id: 7})

        backend.reap()

        assert raw.zcount(key(stage, "members", "a"), 7, 7) == 0
        stage.end("a", ack)
        assert stage.states() == {"a": "completed", "b": "open"}

    def test_a_lost_index_of_flows_is_made_anew(self, backend, clock, raw):
        stage, over = FlowStage(backend, clock, a=Part()), FlowStage(backend, clock, a=Part())
        backend.cancel_flow(over.id, "not wanted")
        raw.delete(f"{P}flows", f"{P}flows:running")
        raw.set(f"{P}flows:running", "nonsense")

        with suppress(BackendError):
            backend.flows(running=True)

        assert [row.id for row in backend.flows(running=True)] == [stage.id]
        assert {row.id for row in backend.flows()} == {stage.id, over.id}


class TestSettingAside:
    def test_a_job_that_is_set_aside_ends_its_node(self, backend, clock, raw):
        stage = FlowStage(backend, clock, a=Part(), b=Part(2, "a"), c=Part(after="a", when="failed"))
        (job_id,) = ids(stage.envelopes["a"])
        record = bytearray(raw.hget(f"{P}jobs", job_id))
        record[1:5] = b"\xff\xff\xff\xff"  # no worker counts so many deliveries
        raw.hset(f"{P}jobs", job_id, bytes(record))

        backend.set_aside()

        assert stage.states() == {"a": "failed", "b": "passed_over", "c": "open"}
        (letter,) = stage.stored("a")
        assert (letter.state, letter.flow, letter.node) == (State.DISCARDED, stage.id, "a")

    @pytest.mark.parametrize("found", [b"nonsense", None])
    def test_a_job_whose_record_says_nothing_any_more_ends_its_node(self, backend, clock, raw, found):
        stage = FlowStage(backend, clock, a=Part(2), b=Part(2, "a"), c=Part(after="a", when="failed"))
        stage.end("a", ack, ack)
        stage = FlowStage(backend, clock, a=Part(2), b=Part(2, "a"), c=Part(after="a", when="failed"))
        job_id, _ = ids(stage.envelopes["a"])
        if found is None:
            raw.hdel(f"{P}jobs", job_id)
        else:
            raw.hset(f"{P}jobs", job_id, found)

        backend.set_aside()

        stage.end("a", ack)
        assert stage.states() == {"a": "failed", "b": "passed_over", "c": "open"}
        assert backend.get(job_id).state is State.DISCARDED

    def test_a_job_that_waits_for_its_node_is_no_damaged_one(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(0, "a"))
        (lease,) = stage.claim("a")
        delayed = [*stage.make("b"), *stage.make("b", delay=10**9), *stage.make("b", not_before=clock.micros())]
        backend.grow(lease, delayed)

        assert backend.set_aside() == 0

        assert stage.jobs("b") == ["scheduled"] * 3


class TestPlainJobs:
    """A job without a flow pays nothing for those that have one."""

    @pytest.mark.promise("W81")
    def test_they_run_the_same_commands_beside_flows(self, backend, clock, raw):
        def road():
            lease = a_lease(backend)
            backend.settle([Settlement.ack(lease)])
            backend.settle([Settlement.abandon(a_lease(backend), "gave up")])
            backend.cancel([backend.enqueue([an_envelope()])[0].id], "not wanted")

        backend.enqueue([an_envelope(queue="other")])  # so that no count comes down to 0
        road()  # the scripts are loaded
        before = commands(raw, road)
        FlowStage(backend, clock, a=Part(3), b=Part(after="a"))

        assert commands(raw, road) == before

    @pytest.mark.promise("W81")
    def test_they_add_no_key_and_no_byte(self, backend, raw):
        lease = a_lease(backend)
        record = raw.hget(f"{P}jobs", lease.envelope.id)
        backend.settle([Settlement.ack(lease)])

        assert keys(raw, *KINDS) == []
        assert record[:7] == b"\x03\0\0\0\x01" + bytes([len("worker") + 1]) + b"w"
        assert record[12:14] == b"\0\0", "no flag"


class TestMembers:
    @pytest.mark.parametrize("delay", [0, 5])
    def test_a_job_that_a_turn_claims_and_whose_flow_stops_by_it_is_asked_and_not_cancelled(
        self, backend, clock, delay
    ):
        stage = FlowStage(backend, clock, stop_on_failure=True, closed=False, a=Part())
        (second,) = stage.make("a", delay=delay)
        backend.extend_flow(stage.id, [second, *stage.make("a", delay=60)])
        backend.close_flow(stage.id)
        (first,) = stage.claim("a", limit=1)
        clock.advance(delay)

        result = backend.turn(a_turn(abandon(first), claim=Claim(queues=("a",), limit=5)))

        assert ids(result.leases) == [second.id]
        assert stage.jobs("a") == ["discarded", "executing", "cancelled"]
        assert list(backend.extend("worker").cancel_requested) == [(second.id, 1)]
        assert backend.settle([Settlement.cancelled(result.leases[0], "stopped")])[0].applied
        assert stage.state() == "failed"

    def test_the_end_of_a_member_looks_at_its_own_node_and_no_other(self, backend, clock, raw):
        """Whatever the flow has besides."""
        backend.open_session(a_session("worker"))
        found = []
        for nodes in ("abc", "abcdefghijklmnopqrstuvwxyz"):
            stage = FlowStage(backend, clock, a=Part(3), **{name: Part(after="a") for name in nodes[1:]})
            first, second, third = stage.claim("a")
            backend.settle([ack(first)])
            found.append(commands(raw, lambda second=second: backend.turn(a_turn(Settlement.ack(second)))))
            backend.settle([ack(third)])

        assert found[0] == found[1]
        assert "hgetall" not in found[0]

    def test_an_ended_flow_leaves_no_key_once_it_is_pruned(self, backend, clock, raw):
        stage = FlowStage(backend, clock, a=Part(2), b=Part(2, "a"), c=Part(after="a", when="failed"))
        for node in "ab":
            stage.end(node, ack)
        clock.advance(1)

        backend.prune(dict.fromkeys((State.COMPLETED, State.DISCARDED, State.CANCELLED), clock.micros()))

        assert keys(raw, *KINDS, "jobs", "sealed", "results") == []

    def test_workers_that_wait_are_woken_for_what_a_cancel_opens(self, backend, clock, raw):
        stage = FlowStage(backend, clock, a=Part(), b=Part(after="a", when="failed"))
        raw.delete(f"{P}wake:b")

        backend.cancel(ids(stage.envelopes["a"]), "not wanted")

        assert raw.exists(f"{P}wake:b")


class TestDamage:
    """Whatever the keys of a flow hold, its members end, and so do other flows and plain jobs."""

    FIELDS = ("about", "state", "cancelled", "retried", "=a", "=b", "+a", "nonsense")

    @pytest.mark.parametrize("field", FIELDS)
    def test_a_damaged_flow_keeps_no_other_job_from_ending(self, open_backend, raw, clock, field):
        for value in HOSTILE.values():
            backend = open_backend()  # one that has not just looked for damage
            written = value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass")
            self.check(backend, clock, lambda stage, written=written: raw.hset(key(stage, "flow"), field, written))
            backend.empty()

    @pytest.mark.parametrize("field", ["about", "state", "=a", "=b"])
    def test_a_flow_of_which_a_byte_was_changed_or_cut_keeps_no_other_job_from_ending(
        self, open_backend, raw, clock, field
    ):
        def flip(stage, at):
            found = bytearray(raw.hget(key(stage, "flow"), field))
            found[at % len(found)] ^= 1 << at % 8
            raw.hset(key(stage, "flow"), field, bytes(found))

        def cut(stage, at):
            raw.hset(key(stage, "flow"), field, raw.hget(key(stage, "flow"), field)[:at])

        for spoil in (flip, cut):
            for at in range(40):
                backend = open_backend()
                self.check(backend, clock, lambda stage, spoil=spoil, at=at: spoil(stage, at))
                backend.empty()

    @pytest.mark.parametrize("kind", [*KINDS, "flows:running"])
    def test_a_key_of_another_type_keeps_no_job_from_ending(self, open_backend, raw, clock, kind):
        def spoil(stage):
            name = {
                "flow": key(stage, "flow"),
                "flows": f"{P}flows",
                "flows:running": f"{P}flows:running",
                "finished": f"{P}finished:5:{stage.id}\na",
            }.get(kind) or key(stage, kind, "a")
            raw.delete(name)
            raw.lpush(name, "nonsense")

        self.check(open_backend(), clock, spoil)

    @pytest.mark.parametrize("settle", [ack, abandon])
    def test_what_a_turn_ended_before_its_claim_broke_off_is_looked_at(self, backend, clock, raw, caplog, settle):
        stage = FlowStage(backend, clock, a=Part(2), b=Part(after="a"), c=Part(after="a", when="failed"))
        leases = stage.claim("a")
        for lease in leases:
            raw.lpush(f"{P}ready:other", "nonsense")

            with suppress(BackendError):
                backend.turn(a_turn(settle(lease), claim=a_claim(queues=("other",))))

            raw.delete(f"{P}ready:other")

        broken_off = [each for each in caplog.messages if "ready:other was renamed" in each]
        assert len(broken_off) == len(leases)
        states = {"a": "failed", "b": "passed_over", "c": "open"}
        assert stage.states() == (states if settle is abandon else {"a": "completed", "b": "open", "c": "skipped"})
        assert "should have gone on before" not in caplog.text

    def test_a_failure_that_no_script_has_noted_counts(self, backend, clock, raw):
        stage = FlowStage(backend, clock, a=Part(2), b=Part(after="a"), c=Part(after="a", when="failed"))
        first, second = stage.claim("a")
        noted = raw.hget(key(stage, "flow"), "=a")
        backend.settle([abandon(first)])
        raw.hset(key(stage, "flow"), "=a", noted)
        backend.settle([ack(second)])

        assert stage.states() == {"a": "failed", "b": "passed_over", "c": "open"}

    def check(self, backend, clock, spoil):
        damaged = FlowStage(backend, clock, a=Part(2), b=Part(after="a"))
        healthy = FlowStage(backend, clock, a=Part(), b=Part(after="a"))
        leases = healthy.claim("a")
        assert len(leases) == 3
        plain = a_lease(backend, owner="worker")
        spoil(damaged)

        answers = [backend.settle([ack(lease)])[0] for lease in (*leases, plain)]

        assert all(answer.applied or answer.already_applied for answer in answers)
        assert healthy.states() == {"a": "completed", "b": "open"}
        backend.reap()
        assert healthy.id in {row.id for row in backend.flows()}
        for look in (backend.flow, backend.retry_flow, lambda flow_id: backend.cancel_flow(flow_id, "not wanted")):
            with suppress(BackendRefused):
                look(damaged.id)
        with suppress(BackendRefused):
            backend.extend_flow(damaged.id, damaged.make("b"))
        backend.enqueue(damaged.make("b"))
        backend.settle([ack(lease) for lease in healthy.claim("b")])
        assert healthy.state() == "completed"
        assert backend.get(plain.envelope.id).state is State.COMPLETED
        assert backend.claim(a_claim(queues=("default",))) == []

    def test_a_damaged_flow_is_refused_with_a_word_and_told_of_by_the_sweep(self, backend, clock, raw, caplog):
        stage = FlowStage(backend, clock, a=Part(), b=Part(after="a"))
        raw.hset(key(stage, "flow"), "=b", b"nonsense")

        for look in (backend.flow, backend.close_flow, backend.retry_flow):
            with pytest.raises(BackendRefused, match="rows that no worker writes"):
                look(stage.id)
        backend.reap()

        assert f"flow {stage.id} cannot go on" in caplog.text
