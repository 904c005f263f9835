"""The server of probes and metrics: whatever a client does, the next one is answered."""

import socket
from contextlib import ExitStack

import pytest

from onward.supervisor.http import HttpServer, ProbeAnswer, bind
from tests.waiting import eventually


@pytest.fixture
def serve():
    """Serve answers: ``port = serve({"/livez": "ok"}, within=5)``."""
    with ExitStack() as stack:

        def serve_them(answers, **options):
            listening = bind("127.0.0.1", 0)
            answer = answers if callable(answers) else lambda path, _: ProbeAnswer(200, answers[path])
            server = HttpServer(listening, answer, **options)
            port = listening.getsockname()[1]
            server.start()
            stack.callback(server.stop)
            return port, server

        yield serve_them


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def all_of(connected):
    parts = []
    while part := connected.recv(65536):
        parts.append(part)
    return b"".join(parts).decode()


def ask(port, request="GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"):
    with connect(port) as connected:
        connected.sendall(request.encode() if isinstance(request, str) else request)
        return all_of(connected)


def test_a_request_is_answered_and_the_connection_closed(serve):
    port, _ = serve({"/livez": "ok\n"})

    assert ask(port) == (
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\nCache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\nok\n"
    )
    assert ask(port, "HEAD /livez?verbose HTTP/1.0\r\n\r\n").endswith("Content-Length: 3\r\nCache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n")  # fmt: skip
    assert ask(port, "GET /livez HTTP/1.1\n\n").startswith("HTTP/1.1 200")


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        ("POST /livez HTTP/1.1\r\n\r\n", 405),
        ("TRACE /livez HTTP/1.1\r\n\r\n", 405),
        ("GET /livez\r\n\r\n", 400),
        ("GET /livez HTTP/2\r\n\r\n", 400),
        ("\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\n\n", 400),
        (b"\xff\xfe\x00 /\x00 \n\r\n", 400),
        ("GET /" + "x" * 9000 + " HTTP/1.1\r\n", 431),
        (b"\x00" * 100_000, 431),
    ],
)
def test_what_is_no_request_gets_a_short_answer(serve, request_text, status):
    port, _ = serve({"/livez": "ok\n"})
    try:
        answer = ask(port, request_text)
    except ConnectionError:  # it goes on sending, and the server does not go on reading
        assert status == 431
    else:
        assert answer.startswith(f"HTTP/1.1 {status} ") or status == 431
        assert ("Allow: GET, HEAD\r\n" in answer) == (status == 405)

    assert ask(port).endswith("\r\n\r\nok\n")


@pytest.mark.promise("S123")
def test_clients_that_hold_connections_keep_no_probe_out(serve):
    port, server = serve({"/livez": "ok\n"}, within=600)
    with ExitStack() as stack:
        held = [stack.enter_context(connect(port)) for _ in range(200)]
        for number, connected in enumerate(held[100:]):
            connected.sendall(b"GET /livez HTTP/1.1\r\nX: " + b"x" * number)

        assert ask(port).endswith("\r\n\r\nok\n")
        assert len(server._connections) <= 64
        assert held[0].recv(1) == b""  # the oldest was closed


@pytest.mark.promise("S123")
def test_a_client_that_does_not_send_or_not_read_is_closed_after_its_time(serve):
    port, server = serve({"/metrics": "x" * 50_000_000}, within=0.5)
    with connect(port) as slow, connect(port) as deaf:
        slow.sendall(b"GET /met")
        deaf.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert slow.recv(1) == b""
        eventually(lambda: not server._connections)


def test_an_answer_that_is_not_ready_does_not_hold_up_others(serve):
    ready = []

    def answer(path, must):
        return ProbeAnswer(200, f"{path} {must}\n") if path == "/livez" or ready else None

    port, server = serve(answer, patience=600, within=600)
    with connect(port) as waiting:
        waiting.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        eventually(lambda: any(each.path == "/metrics" for each in list(server._connections.values())))
        assert ask(port).endswith("\r\n\r\n/livez False\n")
        ready.append(True)
        server.wake()
        assert all_of(waiting).endswith("\r\n\r\n/metrics False\n")


def test_an_answer_that_never_gets_ready_is_made_without_what_it_waits_for(serve):
    port, _ = serve(lambda _, must: ProbeAnswer(200, "made\n") if must else None, patience=0.2, within=600)

    assert ask(port).endswith("\r\n\r\nmade\n")


@pytest.mark.promise("S123")
def test_an_error_in_an_answer_is_logged_once_and_the_next_request_is_served(serve, caplog):
    def answer(path, _):
        return ProbeAnswer(200, {"/livez": "ok\n"}[path])

    port, _ = serve(answer)
    for _ in range(3):
        assert ask(port, "GET /other HTTP/1.1\r\n\r\n").startswith("HTTP/1.1 500 ")

    assert ask(port).endswith("\r\n\r\nok\n")
    assert len([line for line in caplog.records if "could not be answered" in line.message]) == 1


@pytest.mark.promise("S123")
def test_an_error_of_what_is_done_every_second_ends_nothing(serve):
    calls = []

    def every_second():
        calls.append(True)
        raise RuntimeError

    port, _ = serve({"/livez": "ok\n"}, every_second=every_second)

    eventually(lambda: len(calls) >= 2)
    assert ask(port).endswith("\r\n\r\nok\n")


def test_a_port_is_free_again_after_the_end(serve):
    port, server = serve({"/livez": "ok\n"})
    assert ask(port)
    server.stop()

    bind("127.0.0.1", port).close()
