"""`onward worker --listen` and `--heartbeat`: what a worker tells of itself, and that telling it changes no job."""

import os
import re
import signal
import socket

import pytest

from onward import State
from onward.supervisor.http import bind
from tests.supervisor.fleets import Listening, eventually, gone


@pytest.mark.promise("S120")
def test_no_number_goes_back_when_processes_are_killed_under_load(open_shop, start):
    """A process may die after the store has answered and before it has counted: it holds two leases at most."""
    shop = open_shop(lease_for=600)
    shop.brief.enqueue_many([(n,) for n in range(3000)])
    fleet = start(shop, "--processes", 2, "--limit", "default=2", "--listen", "127.0.0.1:0")
    listening, kills, before = Listening(fleet), 4, {}

    def read():
        """What only grows has not gone back since the last reading."""
        nonlocal before
        now = {
            key: value for key, value in listening.metrics().items() if re.match(r"\w+(_total|_bucket|_count)\b", key)
        }
        assert before.keys() <= now.keys()
        back = {key: (before[key], now[key]) for key in before if now[key] < before[key]}
        assert back == {}
        before = now
        return now.get('onward_jobs_succeeded_total{queue="default",job="brief"}', 0)

    for _ in range(kills):
        seen = read()
        eventually(lambda seen=seen: read() >= seen + 20)
        victim = fleet.workers(2)[0]
        os.kill(victim, signal.SIGKILL)
        gone(victim)
    seen = read()
    eventually(lambda: read() >= seen + 20)
    shop.jobs.pause("default")
    eventually(lambda: shop.jobs.counts()[State.EXECUTING] == 0)
    completed = shop.jobs.counts()[State.COMPLETED]
    eventually(lambda: read() >= completed - 2 * kills)

    assert read() <= completed
    # One that was killed before it had imported the application counts as a failed start.
    eventually(lambda: listening.total("onward_worker_restarts_total") == kills)
    assert listening.total("onward_jobs_crashed_total") <= 2 * kills
    assert listening.metrics()['onward_job_run_seconds_count{queue="default"}'] == read()
    assert fleet.stop() == 0


@pytest.mark.promise("S152")
def test_a_worker_tells_what_it_and_its_store_hold(shop, start):
    held = shop.hold.enqueue("work")
    shop.plain.using(queue="third", delay=3600).enqueue()
    shop.jobs.pause("third")
    fleet = start(shop, "--processes", 2, "--concurrency", 3, "--listen", "127.0.0.1:0", env={"ONWARD_BUILD": 'a"b'})
    shop.noted("holding", name="work")
    fleet.workers(2)
    listening = Listening(fleet)
    # Each process tells of itself when it has something to tell, and the store is looked at now and then.
    told = {"processes": 2, "slots": 6, "slots_busy": 1}
    eventually(lambda: {name: listening.metrics()[f"onward_worker_{name}"] for name in told} == told)
    eventually(lambda: listening.metrics().get('onward_queue_jobs{queue="third",state="scheduled"}') == 1)
    seen = listening.metrics()

    assert seen["onward_store_up"] == 1
    assert seen["onward_events_dropped_total"] == 0
    assert seen["onward_turn_seconds_count"] > 0
    assert seen["onward_turn_seconds_sum"] > 0
    assert seen['onward_build_info{version="0.1.0",build="a\\"b"}'] == 1
    assert seen['onward_queue_paused{queue="third"}'] == 1
    assert seen['onward_queue_oldest_due_seconds{queue="third"}'] == 0
    assert seen["onward_dead_letters"] == 0
    assert seen['onward_sessions{state="live"}'] >= 1
    assert listening.get("/other") == (404, "there are /metrics, /livez and /readyz\n")
    shop.let("work")
    shop.ended(held)
    assert fleet.stop() == 0


def test_a_worker_is_ready_once_it_serves_and_until_it_stops(shop, start):
    shop.add("wait_for('import')")
    fleet = start(shop, "--listen", "127.0.0.1:0", ready=False)
    listening = Listening(fleet)
    assert listening.get("/livez") == (200, "ok\n")
    assert listening.get("/readyz") == (503, "no application was imported yet\n")
    assert listening.metrics()["onward_store_up"] == 0

    shop.let("import")
    eventually(lambda: listening.get("/readyz") == (200, "ok\n"))
    held = shop.hold.enqueue("work")
    shop.noted("holding", name="work")
    fleet.tell(signal.SIGTERM)
    eventually(lambda: listening.get("/readyz") == (503, "the worker stops\n"))
    assert listening.get("/livez") == (200, "ok\n")
    shop.let("work")
    shop.ended(held)
    assert fleet.wait() == 0


def test_a_store_that_does_not_answer_is_no_reason_for_a_restart(open_shop, start):
    shop = open_shop(lease_for=1.5, patience=0.2)
    fleet = start(shop, "--listen", "127.0.0.1:0")
    listening = Listening(fleet)
    eventually(lambda: listening.get("/readyz") == (200, "ok\n"))
    with shop.locked():
        eventually(lambda: listening.get("/readyz") == (503, "the store does not answer\n"))
        assert listening.get("/livez") == (200, "ok\n")
        assert listening.metrics()["onward_store_up"] == 0
    eventually(lambda: listening.metrics()["onward_store_up"] == 1)
    eventually(lambda: listening.get("/readyz") == (200, "ok\n"))
    assert fleet.stop() == 0


def test_a_heartbeat_is_a_file_that_is_touched_while_the_worker_is_well(shop, start):
    file = shop.folder / "beat"
    fleet = start(shop, "--heartbeat", file)
    eventually(file.exists)
    file.unlink()

    eventually(file.exists)  # the next one
    assert fleet.stop() == 0


def test_a_loop_that_does_not_turn_is_not_live(shop, start):
    """The thread that answers goes on beside it."""
    (shop.folder / "hanging.py").write_text(
        "import pathlib, time\n"
        "from onward.supervisor import probes, supervisor\n"
        "probes._LOOP_TURNS_WITHIN = 0.5\n"
        "def check(self):\n"
        "    while pathlib.Path('hang').exists(): time.sleep(0.01)\n"
        "    self._probes.turned([])\n"
        "supervisor.Supervisor._check_processes = check\n"
    )
    fleet = start(shop, "--listen", "127.0.0.1:0", patch="import hanging")
    listening = Listening(fleet)
    eventually(lambda: listening.get("/livez")[0] == 200)
    (shop.folder / "hang").touch()

    eventually(lambda: listening.get("/livez")[0] == 503)
    assert "the supervisor's loop has not turned for" in listening.get("/livez")[1]
    (shop.folder / "hang").unlink()
    eventually(lambda: listening.get("/livez")[0] == 200)


@pytest.mark.promise("S123")
def test_metrics_that_are_off_or_that_fail_change_no_job(open_shop, start):
    shop = open_shop(metrics=False)
    handles = shop.plain.enqueue_many([(n,) for n in range(50)])
    fleet = start(shop, "--listen", "127.0.0.1:0", "--heartbeat", "/proc/none/of/this")
    shop.ended(*handles)
    listening = Listening(fleet)

    assert listening.total("onward_jobs_succeeded_total") == 0
    eventually(lambda: listening.metrics()["onward_store_up"] == 1)
    fleet.said("the heartbeat file cannot be touched")
    assert fleet.stop() == 0


@pytest.mark.promise("S123")
def test_counting_that_raises_changes_no_job(shop, start):
    shop.add(
        "from onward.telemetry.counters import CounterTable\n"
        "def broken(*args): raise RuntimeError('no counting today')\n"
        "for name in ('add', 'add_first_deliveries', 'add_successes', 'add_runs'): setattr(CounterTable, name, broken)\n"
    )
    handles = shop.plain.enqueue_many([(n,) for n in range(50)])
    fleet = start(shop, "--listen", "127.0.0.1:0")
    records = shop.ended(*handles)

    assert {record.state for record in records} == {State.COMPLETED}
    fleet.said("something could not be counted")
    assert fleet.stop() == 0
    assert fleet.log.count("something could not be counted") == 1


@pytest.mark.promise("S123")
def test_a_slow_and_a_hostile_client_change_no_job(shop, start):
    fleet = start(shop, "--listen", "127.0.0.1:0")
    listening = Listening(fleet)
    held = []
    try:
        for number in range(100):
            held.append(connected := socket.create_connection(("127.0.0.1", listening.port)))
            connected.sendall((b"GET /metrics HTTP/1.1\r\n\r\n", b"GET /m", b"\xff" * 5000)[number % 3])
        handles = shop.plain.enqueue_many([(n,) for n in range(50)])
        shop.ended(*handles)
        assert listening.get("/livez") == (200, "ok\n")
    finally:
        for connected in held:
            connected.close()
    assert fleet.stop() == 0


def test_an_address_that_is_in_use_is_told_before_anything_starts(shop, start):
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        fleet = start(shop, "--listen", port, ready=False)
        assert fleet.wait() == 3
    assert f"--listen: port {port} of 127.0.0.1 cannot be listened on: Address already in use" in fleet.log


@pytest.mark.parametrize("address", ["", "here", "1:2:3", "127.0.0.1:", "127.0.0.1:70000", "::1"])
def test_what_is_no_address_is_told_with_an_example(shop, start, address):
    fleet = start(shop, f"--listen={address}", ready=False)

    assert fleet.wait() == 2
    assert "write it as 127.0.0.1:9464" in fleet.log
