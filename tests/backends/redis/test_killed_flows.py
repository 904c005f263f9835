"""Flows on a server that is killed, with the processes that run them: they end as the rules say, and no job overtakes."""

import logging
import random
import signal
import subprocess
import sys
from contextlib import ExitStack, closing

import pytest

from onward.backends.redis import RedisBackend
from tests.backends.redis.flow_worker import answered
from tests.backends.sqlite.test_flows import a_random_flow, check, until

KILLS = 8


class Fleet:
    """Processes that run members of flows, and are killed."""

    def __init__(self, backend, server, log):
        self.backend, self.server, self.log = backend, server, log
        self.workers = {}
        log.touch()

    def start(self, number):
        owner = f"worker-{number}"
        program = [sys.executable, "-m", "tests.backends.redis.flow_worker", self.server.url(), str(self.log), owner]
        self.workers[owner] = subprocess.Popen(program)

    def kill(self, owner):
        process = self.workers.pop(owner)
        process.send_signal(signal.SIGKILL)
        process.wait()
        answered(lambda: self.backend.reap(owner=owner, started=(), cause="killed"))

    def kill_all(self):
        for owner in list(self.workers):
            self.kill(owner)


@pytest.mark.promise("W71")
def test_flows_end_as_the_rules_say_while_the_server_and_their_processes_are_killed(
    own_server, tmp_path, caplog, report, store_name
):
    rng = random.Random(17)
    flows = []
    with closing(RedisBackend.from_url(own_server.url())) as backend, ExitStack() as stack:
        fleet = Fleet(backend, own_server, tmp_path / "log")
        stack.callback(fleet.kill_all)

        def enqueue(count):
            for _ in range(count):
                flows.append(a_random_flow(rng))
                answered(lambda: backend.enqueue(flows[-1], retried=True))

        enqueue(10)
        for number in range(3):
            fleet.start(number)
        for number in range(3, 3 + KILLS):
            seen = len(fleet.log.read_bytes())
            enqueue(5)
            until(lambda seen=seen: len(fleet.log.read_bytes()) > seen)
            own_server.restart()
            fleet.kill(rng.choice(sorted(fleet.workers)))
            fleet.start(number)
            answered(backend.reap)
        until(lambda: not answered(lambda: backend.flows(running=True)))
        fleet.kill_all()
        with caplog.at_level(logging.WARNING):
            backend.reap()

        lines = [line.split() for line in fleet.log.read_text().splitlines()]
        for envelopes in flows:
            check(backend, envelopes, lines)
        assert [text for text in caplog.messages if "should have gone on" in text or "listed" in text] == []
    report(
        f"flows on {store_name}: {len(flows)} flows, {sum(map(len, flows))} jobs, {KILLS} kills -9 of the server and as "
        f"many of processes, none stuck, none overtaken"
    )
