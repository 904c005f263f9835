"""`onward web`: a server of its own for the dashboard, opened by a token."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from onward.cli.web_server import WebAddress, hosts_of


@contextmanager
def running(program, *words, **environ):
    """Start it on a free port; gives the process and the first line that it prints."""
    command = [*program, *words, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=-1, stderr=-1, env={**os.environ, **environ}, text=True) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            if process.poll() is None:
                process.kill()


def ask(url, *, token=None, body=None, **headers):
    """The status and the body of an answer."""
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    if body is not None:
        headers["Content-Type"] = "application/json"
    request = urllib.request.Request(url, headers=headers, data=None if body is None else json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


@pytest.fixture
def store(jobs):
    """A store that exists: a command that looks makes none."""
    return jobs.enqueue("welcome", {"user": 7}).id


class TestServing:
    def test_it_prints_its_address_with_a_token_that_opens_it(self, program, store):
        with running(program, "web") as (process, line):
            address, _, token = line.partition("#token=")
            assert urlsplit(address).hostname == "127.0.0.1"
            assert len(token) >= 24

            status, page = ask(address)
            assert (status, b"<base href" in page) == (200, True)
            assert ask(f"{address}api/v1/pulse")[0] == 401
            assert ask(f"{address}api/v1/pulse", token="wrong")[0] == 401
            status, answer = ask(f"{address}api/v1/jobs", token=token)
            assert (status, store in answer.decode()) == (200, True)

            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=60)
            assert (process.returncode, "Traceback" in told) == (0, False), told

    def test_a_signal_ends_it_in_order(self, program, store):
        with running(program, "web") as (process, _):
            process.terminate()
            _, told = process.communicate(timeout=60)

        assert (process.returncode, "Traceback" in told) == (0, False), told

    def test_a_token_from_the_environment_is_not_printed(self, program, store):
        with running(program, "web", "--json", ONWARD_WEB_TOKEN="of-my-own-choice-1234567") as (process, line):
            (url,) = json.loads(line).values()
            assert ask(f"{url}api/v1/pulse", token="of-my-own-choice-1234567")[0] == 200
            process.send_signal(signal.SIGINT)
            out, told = process.communicate(timeout=60)

        assert "of-my-own" not in line + out + told
        assert "ONWARD_WEB_TOKEN" in told
        assert "warning" not in told

    def test_read_only_lets_nobody_change_anything(self, program, store):
        with running(program, "web", "--read-only", "--title", "staging <b>") as (_, line):
            address, _, token = line.partition("#token=")
            status, answer = ask(f"{address}api/v1/jobs/{store}/cancel", token=token, body={})

            assert status == 403, answer
            assert b"<b>" not in ask(address)[1]

    def test_another_host_is_refused(self, program, store):
        with running(program, "web", "--allow-host", "jobs.example") as (_, line):
            address, port = line.partition("#")[0], urlsplit(line).port

            assert ask(address, Host="jobs.example")[0] == 200
            assert ask(address, Host=f"localhost:{port}")[0] == 200
            assert ask(address, Host="evil.example")[0] in (400, 403, 421)

    def test_an_application_shows_its_own_jobs(self, program, shop, url):
        app = shop(url)
        with running(program, "web", "--app", app) as (_, line):
            address, _, token = line.partition("#token=")

            assert ask(f"{address}api/v1/pulse", token=token)[0] == 200


class TestRefusals:
    def test_a_port_in_use_is_said(self, onward, store):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            ran = onward("web", "--listen", f"127.0.0.1:{port}")

        assert ran.code == 3
        assert f"port {port} of 127.0.0.1 cannot be listened on: Address already in use; name another" in ran.err
        assert "in use" in ran.err

    def test_a_host_that_does_not_exist_is_said(self, onward, store):
        ran = onward("web", "--listen", "nowhere.invalid:8321")

        assert ran.code == 3
        assert "port 8321 of nowhere.invalid cannot be listened on" in ran.err

    @pytest.mark.parametrize("address", ["here", "127.0.0.1:99999", "::1:80", ":-1"])
    def test_what_is_no_address_is_said(self, onward, store, address):
        ran = onward("web", f"--listen={address}")

        assert ran.code == 2
        assert "is no address: write it as 127.0.0.1:" in ran.err

    def test_without_uvicorn_it_names_the_command_that_installs_it(self, onward, store, monkeypatch):
        monkeypatch.setitem(sys.modules, "uvicorn", None)

        ran = onward("web")

        assert ran.code == 3
        assert 'pip install "onward[web]"' in ran.err
        assert onward("demo", "--web").code == 3

    def test_a_store_that_does_not_exist_is_not_made(self, onward, tmp_path):
        ran = onward("web", "--url", f"sqlite:///{tmp_path / 'other.db'}")

        assert ran.code == 4
        assert not (tmp_path / "other.db").exists()

    def test_the_help_names_the_variable_and_the_extra(self, onward):
        ran = onward("web", "--help")

        assert ran.code == 0
        for word in ("ONWARD_WEB_TOKEN", "onward[web]", "--listen", "--read-only", "--title", "--allow-host"):
            assert word in ran.out


@pytest.mark.parametrize(
    ("host", "url", "hosts"),
    [
        ("127.0.0.1", "http://127.0.0.1:80/", ["localhost", "127.0.0.1", "[::1]"]),
        ("0.0.0.0", "http://127.0.0.1:80/", ["localhost", "127.0.0.1", "[::1]"]),
        ("10.0.0.7", "http://10.0.0.7:80/", ["localhost", "127.0.0.1", "[::1]", "10.0.0.7"]),
        ("::1", "http://[::1]:80/", ["localhost", "127.0.0.1", "[::1]"]),
    ],
)
def test_an_address_is_written_as_a_browser_takes_it(host, url, hosts):
    assert WebAddress(host, 80).url == url
    assert hosts_of(WebAddress(host, 80), []) == hosts
    assert hosts_of(WebAddress(host, 80), ["jobs.example"])[-1] == "jobs.example"
