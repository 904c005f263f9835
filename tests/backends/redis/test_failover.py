"""Sentinels, clusters, and a state that is older than what was answered."""

import shutil
import signal
import time
from contextlib import ExitStack

import pytest

from onward.backend import Settlement
from onward.errors import BackendMisconfigured, BackendUnavailable
from onward.job.states import State
from onward.testing.contract.builders import PATIENCE, a_claim, a_session, an_envelope, some_envelopes
from tests.servers.redis import free_port, redis_server, sentinel


def until(holds):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def as_soon_as_possible(act):
    """Try again as long as the store is away, as the client and the worker do."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return act()
        except BackendUnavailable:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def cluster(redis):
    """Two nodes, of which the second has all the slots."""
    with ExitStack() as started:
        ports = [free_port(), free_port()]
        nodes = [started.enter_context(redis_server(redis.product, port=port, cluster_enabled="yes")) for port in ports]
        with nodes[0].client() as first, nodes[1].client() as second:
            second.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            first.execute_command("CLUSTER", "MEET", "127.0.0.1", ports[1])
            until(lambda: all("cluster_state:ok" in _state(client) for client in (first, second)))
            yield ports, nodes


def _state(client):
    answer = client.execute_command("CLUSTER", "INFO")
    return answer.decode() if isinstance(answer, bytes) else "\n".join(f"{k}:{v}" for k, v in answer.items())


def test_in_a_cluster_the_node_is_found_that_has_the_namespace(cluster, open_backend):
    ports, (_, second) = cluster
    backend = open_backend(f"redis+cluster://127.0.0.1:{ports[0]}")

    backend.enqueue(some_envelopes(3))
    leases = backend.claim(a_claim(limit=3))
    settled = backend.settle([*map(Settlement.ack, leases)])
    backend.wait(["default"], 0.01)

    assert [answer.applied for answer in settled] == [True] * 3
    with second.client() as client:
        assert client.exists("{onward}:jobs")


def test_a_node_of_a_cluster_is_not_taken_for_a_server(cluster, open_backend):
    ports, _ = cluster
    backend = open_backend(f"redis://127.0.0.1:{ports[0]}")

    with pytest.raises(BackendMisconfigured, match=r"redis\+cluster://"):
        backend.enqueue([an_envelope()])


@pytest.mark.promise("F25", "F32")
def test_a_replica_takes_over_and_the_work_goes_on(redis, open_backend):
    first, second, third = free_port(), free_port(), free_port()
    with (
        redis_server(redis.product, port=first) as primary,
        redis_server(redis.product, port=second, replicaof=f"127.0.0.1 {first}") as replica,
        sentinel(redis.product, port=third, primary=first),
        replica.client() as copy,
    ):
        backend = open_backend(f"redis+sentinel://127.0.0.1:{third}/main")
        backend.enqueue(some_envelopes(5))
        (lease,) = backend.claim(a_claim())
        with primary.client() as client, _sentinel_client(third) as watcher:
            until(lambda: client.execute_command("WAIT", 1, 100) == 1)
            until(lambda: watcher.execute_command("SENTINEL", "REPLICAS", "main"))
        until(lambda: copy.zcard("{onward}:live") == 5)

        primary.stop(signal.SIGKILL)

        assert as_soon_as_possible(lambda: backend.ack(lease)).counts
        assert as_soon_as_possible(lambda: backend.enqueue([an_envelope()]))[0].created
        assert backend.counts()[State.AVAILABLE] == 5
        assert copy.info("replication")["role"] == "master"


def _sentinel_client(port):
    import redis

    return redis.Redis(port=port, protocol=2)


@pytest.mark.promise("F32")
def test_a_state_that_is_older_than_what_was_answered_can_be_worked_with(own_server, open_backend, tmp_path):
    """As after a failover to a replica that was behind: what came since is lost, and everything else goes on."""
    backend = open_backend(own_server.url())
    backend.enqueue(some_envelopes(5))
    early = backend.claim(a_claim(owner="early", limit=2))
    own_server.stop()
    shutil.copytree(own_server.folder / "appendonlydir", tmp_path / "old")
    own_server.start()
    backend.ack(early[0])
    late = backend.claim(a_claim(owner="late", limit=2))
    (lost,) = backend.enqueue([an_envelope()])

    own_server.stop()
    shutil.rmtree(own_server.folder / "appendonlydir")
    shutil.copytree(tmp_path / "old", own_server.folder / "appendonlydir")
    _give_to_whom_it_belongs(own_server)
    own_server.start()

    assert backend.get(lost.id) is None
    assert [answer.applied for answer in backend.settle([Settlement.ack(lease) for lease in late])] == [False, False]
    assert not backend.extend("late").alive
    assert [answer.applied for answer in backend.settle([Settlement.ack(lease) for lease in early])] == [True, True]
    backend.open_session(a_session("new"))
    leases = backend.claim(a_claim(owner="new", limit=9))
    assert all(answer.applied for answer in backend.settle([Settlement.ack(lease) for lease in leases]))
    assert (len(leases), backend.counts()[State.COMPLETED], backend.reap()) == (3, 5, [])


def _give_to_whom_it_belongs(server):
    owner = server.folder.stat()
    for path in (server.folder / "appendonlydir", *(server.folder / "appendonlydir").iterdir()):
        shutil.chown(path, owner.st_uid)
