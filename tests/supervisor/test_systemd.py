"""What systemd hears."""

import signal
import socket

import pytest

from tests.supervisor.fleets import eventually, let_pass


@pytest.fixture
def listener(folder):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(folder / "notify"))
        listener.settimeout(30)
        yield listener


def heard(listener):
    words = []
    listener.settimeout(0)
    while True:
        try:
            words.append(listener.recv(100).decode())
        except BlockingIOError:
            return words


def test_it_is_told_when_the_worker_is_ready_alive_and_about_to_stop(shop, start, listener):
    env = {"NOTIFY_SOCKET": listener.getsockname(), "WATCHDOG_USEC": "200000"}
    fleet = start(shop, env=env, ready=False)
    words = []
    # The socket has room for ten words: it is emptied all the time.
    eventually(lambda: words.extend(heard(listener)) or ("READY=1" in words and words.count("WATCHDOG=1") > 3))
    fleet.tell(signal.SIGTERM)
    eventually(lambda: words.extend(heard(listener)) or "STOPPING=1" in words)
    assert fleet.wait() == 0
    words += heard(listener)

    assert [word for word in words if word != "WATCHDOG=1"] == ["READY=1", "STOPPING=1"]


def test_it_is_told_nothing_that_it_did_not_ask_for(shop, start, listener):
    fleet = start(shop, env={"NOTIFY_SOCKET": listener.getsockname(), "WATCHDOG_USEC": "100000", "WATCHDOG_PID": "1"})
    let_pass(0.5)
    assert fleet.stop() == 0

    assert heard(listener) == ["READY=1", "STOPPING=1"]


def test_a_listener_that_hangs_does_not_hang_the_worker(shop, start, listener):
    """Its socket is full after a while."""
    fleet = start(shop, env={"NOTIFY_SOCKET": listener.getsockname(), "WATCHDOG_USEC": "2000"})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as another:
        another.settimeout(0)
        another.connect(listener.getsockname())

        def is_full():
            try:
                another.send(b"x")
            except BlockingIOError:
                return True
            return False

        eventually(is_full)
    assert shop.plain.enqueue().result(20)
    assert fleet.stop() == 0


def test_an_abstract_address_is_reached(shop, start):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{shop.folder}")
        fleet = start(shop, env={"NOTIFY_SOCKET": f"@{shop.folder}"})
        assert fleet.stop() == 0

        assert heard(listener) == ["READY=1", "STOPPING=1"]
