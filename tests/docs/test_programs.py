"""The larger examples run as people run them: a web server, a worker, Ctrl-C."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections import Counter

import httpx
import psycopg
import pytest

from onward import Onward
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(400)  # whole programs start, on a machine that may be busy


@pytest.fixture
def start(tmp_path):
    """Start a Python program in a folder of its own; it does not outlive the test."""
    with contextlib.ExitStack() as stack:

        def start(*words, **environment):
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": tmp_path}
            program = subprocess.Popen([sys.executable, *words], env={**os.environ, **environment}, **pipes)
            stack.callback(program.communicate)
            stack.callback(program.kill)
            return program

        yield start


def test_the_shop_on_fastapi_charges_each_order_once_and_none_that_it_refused(
    request, newest_postgres, start, tmp_path
):
    with psycopg.connect(newest_postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE fastapi_shop")
    url, socket = newest_postgres.url("fastapi_shop"), tmp_path / "socket"
    shop = {"SHOP_DATABASE": url, "PYTHONPATH": str(request.config.rootpath / "examples/fastapi_shop")}
    server = start("-m", "uvicorn", "shop:app", "--uds", str(socket), **shop)
    eventually(lambda: socket.exists() or server.poll() is not None)
    assert server.poll() is None, server.communicate()

    with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket), retries=5), base_url="http://shop") as client:
        orders = [("ann", 2), ("bob", 4), ("cem", 3)]
        answers = [client.post("/orders", json={"customer": who, "lamps": number}) for who, number in orders]
        assert [answer.status_code for answer in answers] == [202, 409, 202]

        worker = start("-m", "onward", "worker", "shop:jobs", "--until-empty", **shop)
        assert worker.wait() == 0, worker.communicate()

        shown = [client.get(f"/orders/{answer.json()['order']}").json() for answer in (answers[0], answers[2])]
        assert shown == [
            {"customer": "ann", "lamps": 2, "state": "paid"},
            {"customer": "cem", "lamps": 3, "state": "paid"},
        ]
    server.terminate()
    assert server.wait() == -signal.SIGTERM or server.returncode == 0

    with Onward(url) as jobs:
        assert Counter((job.job, job.state) for job in jobs.list()) == {
            ("charge", "completed"): 2,
            ("confirm", "completed"): 2,
        }
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT amount FROM charges ORDER BY amount").fetchall() == [(40,), (60,)]
        assert connection.execute('SELECT "left" FROM stock').fetchall() == [(0,)]


def test_the_pipeline_goes_on_after_ctrl_c_and_counts_every_reading_once(request, start):
    pipeline = (str(request.config.rootpath / "examples/pipeline.py"), "--items=200")
    first = start(*pipeline, "--rate=20/s")
    assert any("#" in line for line in first.stdout), first.communicate()  # some are read
    first.send_signal(signal.SIGINT)
    assert "start it again, and it goes on" in first.communicate()[1]

    told, wrong = start(*pipeline, "--rate=400/s").communicate()

    assert "going on with the pipeline of the last start" in told, wrong
    assert "100% [########################################]" in told, wrong
    assert "200 readings, 19.95 °C on average, 24.90 °C at most" in told
    answered = int(re.search(r"answered (\d+) calls", told)[1])
    assert 0 < answered < 200  # the others were read before
