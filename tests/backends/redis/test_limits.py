"""Limits on a server: what they cost, what is kept of them, how counts are made anew, and who is woken."""

import logging
import random
import threading
import time

import pytest

from onward.backend import Claim, Query, Settlement
from onward.backends.redis import backend as module
from onward.flow.lanes import lane_of
from onward.flow.limits import Bounds
from onward.job.states import FINISHED, State
from onward.testing.contract.builders import PATIENCE, SETTLEMENTS, a_session, a_turn, an_envelope, ids, some_envelopes
from onward.testing.contract.lanes import a_limit, claimed, declare, in_lane, turn
from onward.testing.contract.rates import with_gate
from tests.backends.redis.test_wake import await_sleepers

LONG = 10 * PATIENCE
P = "{onward}:"


def commands(raw, call):
    """How often a call runs each command."""
    raw.config_resetstat()
    call()
    stats = raw.info("commandstats")
    return {
        name.removeprefix("cmdstat_"): each["calls"]
        for name, each in stats.items()
        if name not in ("cmdstat_config|resetstat", "cmdstat_info", "cmdstat_evalsha")
    }


class TestPlainJobs:
    """A job without a lane pays nothing for those that have one."""

    @pytest.mark.promise("L53")
    def test_they_add_no_command(self, backend, raw):
        claim = Claim(queues=("default",), limit=2)
        backend.open_session(a_session())
        backend.enqueue(some_envelopes(5))
        backend.enqueue([an_envelope()])
        (lease, _) = backend.turn(a_turn(claim=claim)).leases  # the scripts are loaded
        backend._run("look", 0, ["default"])

        assert commands(raw, lambda: backend.enqueue([an_envelope()])) == {
            "hsetnx": 1, "zadd": 2, "zcard": 1, "hincrby": 1, "exists": 1,
        }  # fmt: skip
        assert commands(raw, lambda: backend.enqueue(some_envelopes(2))) == {
            "hmget": 1, "hset": 1, "zadd": 2, "zcard": 1, "hincrby": 1, "exists": 1,
        }  # fmt: skip
        assert commands(raw, lambda: backend.turn(a_turn(claim=claim))) == {
            "zscore": 1, "hexists": 1, "del": 1, "zrange": 1,
            "hmget": 1, "sadd": 2, "hset": 1, "zremrangebyrank": 1, "hincrby": 3, "zadd": 1, "exists": 4,
        }  # fmt: skip
        assert commands(raw, lambda: backend.turn(a_turn(Settlement.ack(lease)))) == {
            "zscore": 1, "hexists": 1, "del": 1, "exists": 1, "hmget": 2, "srem": 1, "zrem": 1, "hset": 1, "zadd": 2,
            "hincrby": 5,
        }  # fmt: skip
        assert commands(raw, lambda: backend._run("look", 0, ["default"])) == {"smismember": 1, "exists": 1}

    def test_they_add_no_key_and_no_byte(self, backend, raw):
        plain = an_envelope()
        backend.enqueue([plain])
        before = raw.hstrlen(f"{P}jobs", plain.id)
        keys = set(raw.keys())
        declare(backend, a_limit(running=1))
        (laned,) = in_lane(1, "acme", job=plain.job)
        backend.enqueue([laned])

        assert before == raw.hstrlen(f"{P}jobs", plain.id)
        assert len(raw.hget(f"{P}jobs", laned.id)) > before
        assert {key.decode().removeprefix(P) for key in set(raw.keys()) - keys} == {
            "limits", "lanes:default", "paused", "sessions", "expiry",
        }  # fmt: skip


class TestKeys:
    def test_nothing_is_left_of_jobs_that_were_forgotten(self, backend, clock, raw):
        declare(backend, a_limit(running=50, rate="5/s"), a_limit(kind="key", rate="2/min"))
        for settle in SETTLEMENTS.values():
            backend.enqueue(in_lane(3, "acme"))
            backend.settle([settle(lease) for lease in claimed(backend, limit=2)])
            clock.advance(40)
        backend.enqueue(in_lane(9, "other"))
        claimed(backend)
        claimed(backend)
        assert raw.zcard(f"{P}booked:default") > 0
        backend.reap(owner="worker")
        backend.cancel([job.id for job in backend.list(Query(states=frozenset(State) - FINISHED))], "enough")
        backend.set_limit("queue", "default", Bounds(running=1), new=True)
        backend.set_limit("queue", "default", Bounds())

        clock.advance(86_400 * 2)
        while backend.purge(Query(states=FINISHED)):
            pass
        backend.prune({})
        backend._run("look", None, ["default"])

        assert sorted(raw.keys()) == [b"{onward}:counts", b"{onward}:limits"]
        assert raw.hkeys(f"{P}counts") == [b"ended"]

    def test_every_key_has_the_hash_tag_of_its_namespace(self, open_backend, raw):
        backend = open_backend(namespace="shop")
        declare(backend, a_limit(kind="key", running=3, rate="2/min"), a_limit("default", "queue", running=50))
        backend.enqueue(in_lane(5, "acme") + some_envelopes(2))
        claimed(backend)
        claimed(backend)
        keys = set(raw.keys())

        assert {b"{onward:shop}:gates", b"{onward:shop}:running", b"{onward:shop}:booked:default"} <= keys
        assert all(key.startswith(b"{onward:shop}:") for key in keys)

    def test_the_numbers_are_those_of_a_recount(self, backend, clock, raw):
        rng = random.Random(7)
        declare(backend, a_limit(running=4), a_limit(kind="key", running=2, rate="30/min"))
        for _ in range(120):
            backend.enqueue(in_lane(2, rng.choice("abc"), queue=rng.choice(["a", "b"])) + some_envelopes(1, queue="a"))
            leases = claimed(backend, queues=("a", "b"), limit=3)
            backend.settle([rng.choice([*SETTLEMENTS.values()])(lease) for lease in leases if rng.random() < 0.7])
            clock.advance(rng.choice([0, 1, 60]))
            if rng.random() < 0.1:
                backend.reap(owner="worker")

        listed = list(backend.list(Query(limit=10_000)))
        running = [job for job in listed if job.state is State.EXECUTING and job.lane]

        assert backend._run("wrong_slots") == 0
        assert raw.zcard(f"{P}running") == 2 * len(running)  # by lane, and by job
        assert backend.counts() == {state: sum(job.state is state for job in listed) for state in State}

    def test_gates_that_say_nothing_are_dropped_by_prune(self, backend, clock, raw):
        declare(backend, a_limit(kind="key", rate="10/min"))
        backend.enqueue([in_lane(1, f"tenant-{number}")[0] for number in range(50)])
        (lease, *_) = claimed(backend)
        backend.settle([with_gate(Settlement.ack(lease), "render/", 300)])
        backend.prune({})
        assert raw.hlen(f"{P}gates") == 51

        clock.advance(60)
        backend.prune({}, dry_run=True)
        assert raw.hlen(f"{P}gates") == 51
        backend.prune({})
        assert raw.hkeys(f"{P}gates") == [b"\nrender/"]

        clock.advance(300)
        backend.prune({})
        assert not raw.exists(f"{P}gates")


class TestBounds:
    @pytest.mark.promise("L51")
    def test_a_script_looks_at_no_more_than_164_lanes(self, backend, raw):
        backend.enqueue([in_lane(1, f"tenant-{number}")[0] for number in range(400)])

        first = turn(backend, limit=400)

        assert (len(first.leases), first.more) == (164, True)
        assert len(claimed(backend, limit=400)) == 400 - 164

    @pytest.mark.parametrize("limit", [1, 36, 100])
    def test_a_walk_may_stop_anywhere_and_go_on(self, backend, limit):
        declare(backend, a_limit(kind="key", running=1))
        backend.enqueue([each for number in range(200) for each in in_lane(2, f"tenant-{number}")])
        assert len(claimed(backend, limit=300)) == 200

        answers = [turn(backend, limit=limit).more for _ in range(40)]

        assert {True, False} == set(answers)

    @pytest.mark.promise("L51")
    def test_the_cost_of_a_claim_does_not_depend_on_how_much_waits(self, backend, raw):
        """A million jobs of a full lane, and of lanes of a full job, are one step."""
        declare(backend, a_limit(running=1), a_limit("mail", "key", running=1))
        backend.enqueue(in_lane(1) + in_lane(1, "acme", of="mail"))
        assert len(claimed(backend)) == 2

        def asked(waiting):
            backend.enqueue([in_lane(1, f"tenant-{number}")[0] for number in range(waiting)])
            backend.enqueue(in_lane(waiting, "acme", of="mail"))
            return commands(raw, lambda: turn(backend, limit=10))

        few = asked(10)
        assert {**asked(1_000), "lpush": 0} == {**few, "lpush": 0}

    def test_lanes_sort_by_their_bytes_whatever_their_text(self, backend):
        keys = ["ä", "Ä", "z", "Z", "a/b", "~", "€", "\U0001f600", "a b"]
        backend.enqueue([in_lane(1, key)[0] for key in keys])

        assert sorted(str(lease.lane) for lease in claimed(backend)) == sorted(lane_of("render", key) for key in keys)


class TestRepair:
    """Records decide: what an index or a count says otherwise is corrected."""

    @pytest.fixture
    def critical(self, caplog):
        caplog.set_level(logging.CRITICAL, logger="onward.backend")
        return lambda: [record.getMessage() for record in caplog.records if record.levelno == logging.CRITICAL]

    def test_a_slot_that_no_lease_has_is_found_by_a_health_check_and_given_back(self, backend, raw, critical):
        declare(backend, a_limit(running=1))
        backend.enqueue(in_lane(2))
        (lease,) = claimed(backend)
        backend.ack(lease)
        raw.zadd(f"{P}running", {b"render/\0" + bytes(8) + lease.envelope.id.encode(): 0})
        assert claimed(backend) == []

        checks = {check.name: check for check in backend.health()}

        assert checks["limits"].status == "warn"
        assert "1 entries of running were removed" in critical()[0]
        assert len(claimed(backend)) == 1
        assert {check.name: check.status for check in backend.health()}["limits"] == "ok"

    @pytest.mark.parametrize("spoil", ["forget", "count"])
    def test_a_lease_that_is_not_counted_is_counted_after_a_health_check(self, backend, raw, spoil):
        declare(backend, a_limit(running=2), a_limit("default", "queue", running=2))
        backend.enqueue(in_lane(5, "acme"))
        assert len(claimed(backend)) == 2
        if spoil == "forget":
            raw.delete(f"{P}running")
        raw.hset(f"{P}counts:default", "3", 7 if spoil == "count" else 0)

        assert {check.name: check.status for check in backend.health()}["limits"] == "warn"

        assert {check.name: check.status for check in backend.health()}["limits"] == "ok"
        assert raw.zcard(f"{P}running") == 4
        assert claimed(backend) == []

    def test_counts_of_a_queue_that_were_lost_let_no_more_run_once_that_shows(self, backend, raw):
        declare(backend, a_limit(kind="queue", name="default", running=2))
        backend.enqueue(some_envelopes(20))
        before = claimed(backend)
        raw.delete(f"{P}counts:default")
        backend.settle([Settlement.ack(lease) for lease in before + claimed(backend)])
        assert int(raw.hget(f"{P}counts:default", "3")) < 0

        assert [len(claimed(backend)) for _ in range(3)] == [2, 0, 0]

    @pytest.mark.parametrize("number", ["-5", "1.5", "none", "9" * 20])
    def test_a_count_that_no_worker_writes_neither_stops_a_queue_nor_lets_more_run(self, backend, raw, number):
        declare(backend, a_limit(kind="queue", name="default", running=2))
        backend.enqueue(some_envelopes(20))
        raw.hset(f"{P}counts:default", "3", number)

        assert [len(claimed(backend)) for _ in range(3)] == [2, 0, 0]

    def test_a_line_that_names_a_job_of_another_lane_is_corrected(self, backend, raw, critical):
        first, second = in_lane(2, "acme")
        backend.enqueue([first, second])
        members = raw.zrange(f"{P}lanes:default", 0, -1)
        wrong = members[0].replace(lane_of("render", "acme").encode(), b"render/0000evil")
        raw.zrem(f"{P}lanes:default", members[0])
        raw.zadd(f"{P}lanes:default", {wrong: 0})

        found = claimed(backend) + claimed(backend)

        assert sorted(ids(found)) == sorted([first.id, second.id])
        assert {lease.lane for lease in found} == {first.lane}
        assert any("lanes:default" in line for line in critical())

    def test_a_line_that_names_no_job_is_a_dead_letter(self, backend, raw, critical):
        backend.enqueue(in_lane(1, "acme"))
        raw.zadd(f"{P}lanes:default", {b"\x65render/0000ghost\0" + bytes(8) + b"ghost": 0})

        assert len(claimed(backend)) == 1

        assert backend.get("ghost").state is State.DISCARDED
        assert "there is no record of it" in backend.get("ghost").reason

    @pytest.mark.parametrize("row", [b"", b"nonsense", b"\xff" * 72])
    def test_a_limit_that_cannot_be_read_is_removed_with_a_critical_line(self, backend, raw, critical, row):
        declare(backend, a_limit(running=1))
        backend.enqueue(in_lane(2))
        raw.hset(f"{P}limits", "job:render", row)

        assert len(claimed(backend)) == 2

        assert any("limits job:render" in line for line in critical())
        assert backend.limits() == []

    def test_a_gate_that_cannot_be_read_is_removed_and_stops_nothing(self, backend, raw, critical):
        declare(backend, a_limit(rate="2/min"))
        backend.enqueue(in_lane(3))
        raw.hset(f"{P}gates", "\nrender/", b"nonsense")

        assert len(claimed(backend)) == 2

        assert any("a row of gates" in line for line in critical())
        assert claimed(backend) == []

    @pytest.mark.parametrize("key", ["lanes:default", "running", "booked:default", "limits", "gates"])
    def test_a_key_of_another_type_is_put_aside_and_made_again(self, backend, clock, raw, critical, key):
        declare(backend, a_limit(kind="key", running=4, rate="3/min"))
        backend.enqueue(in_lane(6, "acme"))
        assert len(claimed(backend)) == 3
        claimed(backend)
        raw.delete(P + key)
        raw.set(P + key, "a text")
        clock.advance(60)

        backend.enqueue(in_lane(1, "acme"))
        found = claimed(backend)

        assert found
        assert raw.type(P + key) != b"string"
        assert any(key in line and "renamed" in line for line in critical())

    def test_a_lost_mark_is_made_again_with_the_next_search(self, backend, raw):
        backend.enqueue(in_lane(2, "acme"))
        raw.delete(f"{P}paused")
        assert claimed(backend) == []

        backend._look_for_damage()

        assert len(claimed(backend)) == 2


class TestWaking:
    @pytest.fixture
    def sleeper(self, monkeypatch, open_backend, raw):
        """Start a thread that waits for work and does not look by itself; gives the event that says that it woke."""
        monkeypatch.setattr(module, "_LOOK", LONG)
        threads = []

        def start(*queues):
            backend, woken = open_backend(), threading.Event()

            def sleep():
                backend.wait(queues or ["default"], LONG)
                woken.set()

            threads.append((backend, threading.Thread(target=sleep, daemon=True)))
            threads[-1][1].start()
            await_sleepers(raw, len(threads))
            return woken

        yield start
        for backend, thread in threads:
            backend.close()
            thread.join(PATIENCE)
            assert not thread.is_alive()

    @pytest.mark.parametrize("kind", ["job", "key", "queue"])
    def test_a_slot_that_is_free_wakes_a_worker(self, backend, sleeper, kind):
        declare(backend, a_limit("default" if kind == "queue" else "render", kind, running=1))
        backend.enqueue(some_envelopes(3) if kind == "queue" else in_lane(3, "acme"))
        (lease,) = claimed(backend)
        woken = sleeper()

        backend.ack(lease)

        assert woken.wait(PATIENCE)

    @pytest.mark.parametrize("kind", ["job", "key"])
    def test_a_slot_that_one_queue_frees_wakes_a_worker_of_another(self, backend, sleeper, kind):
        declare(backend, a_limit(kind=kind, running=1))
        backend.enqueue(in_lane(1, "acme", queue="a"))
        (lease,) = claimed(backend, queues=("a",))
        backend.enqueue([*some_envelopes(1, queue="a"), *in_lane(1, "acme", queue="b")])
        woken = sleeper("b")

        turn(backend, Settlement.ack(lease), queues=("a",))

        assert woken.wait(PATIENCE)

    def test_a_slot_that_is_taken_again_wakes_no_worker_of_another_queue(self, backend, raw):
        declare(backend, a_limit(running=1))
        backend.enqueue([*in_lane(2, queue="a"), *in_lane(1, queue="b")])
        (lease,) = claimed(backend, queues=("a",))
        raw.delete(f"{P}wake:b")

        assert len(turn(backend, Settlement.ack(lease), queues=("a",)).leases) == 1

        assert not raw.exists(f"{P}wake:b")

    def test_full_lanes_keep_no_worker_busy(self, backend, open_backend, raw):
        declare(backend, a_limit(running=1))
        backend.enqueue(in_lane(50))
        assert len(claimed(backend)) == 1
        turns = []

        def work(client):
            until = time.monotonic() + 2
            while time.monotonic() < until:
                client.wait(["default"], until - time.monotonic())
                turns.append(turn(client, owner="other").leases)

        threads = [threading.Thread(target=work, args=(open_backend(),)) for _ in range(8)]
        for thread in threads:
            thread.start()
        await_sleepers(raw, 8)
        backend.enqueue(in_lane(1))  # it wakes one of them, which finds the lane full
        for thread in threads:
            thread.join(PATIENCE)

        assert turns == [[]] * len(turns)
        assert len(turns) <= 8 + 2  # each one when its time is over

    @pytest.mark.parametrize("change", ["set", "open"])
    def test_what_people_change_wakes_a_worker(self, backend, sleeper, change):
        declare(backend, a_limit(running=1))
        backend.enqueue(in_lane(3))
        claimed(backend)
        if change == "open":
            backend.shut("render/")
            backend.set_limit("job", "render", Bounds(running=5))
        woken = sleeper()

        if change == "open":
            backend.shut("render/", opened=True)
        else:
            backend.set_limit("job", "render", Bounds(running=5))

        assert woken.wait(PATIENCE)

    def test_a_sleeper_wakes_at_the_next_token(self, open_backend):
        backend = open_backend(clock=None)
        declare(backend, a_limit(rate="2/s", burst=1), a_limit("mail", "key", rate="2/s", burst=1))
        backend.enqueue(in_lane(2) + in_lane(2, "acme", of="mail"))
        assert len(claimed(backend)) == 2

        for _ in range(2):
            begun = time.monotonic()
            while not (found := claimed(backend, limit=1)):
                backend.wait(["default"], LONG)
            assert time.monotonic() - begun < PATIENCE
            assert len(found) == 1
