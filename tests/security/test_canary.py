"""A secret, wherever it stands among the arguments of a job, is found nowhere but in the sealed bytes.

The canary is looked for in every row of the store, every log line, event, record, error and output of the command line,
after a handler has told it in every way.  The same search finds it everywhere if nothing is masked: so it can find it.
"""

import functools
import importlib
import itertools
import json
import logging
import re
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import pytest

from onward import Secret, State
from onward.cli import main, timeline
from onward.client import record
from onward.job import registry
from onward.telemetry import Event, JobDiscarded
from tests.security import till
from tests.security.till import CANARY, PLACES, SIGNS, open_till, ways_to_say
from tests.servers.beanstalkd import beanstalkd_server
from tests.servers.engines import ENGINES, Engine, SqliteStore
from tests.servers.servicebus import entity, servicebus, url_of

KEYS = {"k1": "s" * 40}
COPIES = "dead"


@pytest.fixture(scope="session")
def served():
    with ExitStack() as stack:
        yield functools.cache(lambda name: stack.enter_context((STORES | BROKERS)[name].server()))


class BesideBeanstalkd(SqliteStore):
    """A broker, and the file beside it that keeps what it cannot."""

    def __init__(self, server, folder):
        super().__init__(server, folder)
        self._broker = Beanstalkd(server)
        self.settings = {"store": super().url()}

    def url(self):
        return self._broker.url()

    def everything(self):
        return super().everything() + self._broker.everything()


class Beanstalkd:
    def __init__(self, server):
        server.stop()
        for file in server.folder.glob("binlog.*"):
            file.unlink()
        server.start()
        self._server = server

    def url(self):
        return self._server.url()

    def everything(self):
        """All that was ever written to its log."""
        return b"".join(file.read_bytes() for file in self._server.folder.glob("binlog.*"))


class ServiceBus:
    def __init__(self, bus):
        bus.clear()
        self._bus = bus

    def url(self):
        return url_of(self._bus)

    def everything(self):
        """All that is in its queues, and what was given as the reason of a dead letter."""
        paths = [f"{entity(queue)}{suffix}" for queue in (till.QUEUE, COPIES) for suffix in ("", "/$deadletterqueue")]
        stored = [message for path in paths for message in self._bus.messages(path)]
        told = [repr((each.content.annotations, each.content.application, each.dead_letter)) for each in stored]
        return b"\n".join([*(each.content.body for each in stored), *(each.encode() for each in told)])


STORES = ENGINES | {"beanstalkd and sqlite": Engine(beanstalkd_server, BesideBeanstalkd)}
BROKERS = {
    "beanstalkd": Engine(beanstalkd_server, lambda server, _: Beanstalkd(server)),
    "servicebus": Engine(lambda: servicebus(till.QUEUE, COPIES), lambda bus, _: ServiceBus(bus)),
}


@pytest.fixture(params=STORES)
def store(request, tmp_path, served):
    return STORES[request.param].store(served(request.param), tmp_path)


@pytest.fixture(params=BROKERS)
def broker(request, tmp_path, served):
    return BROKERS[request.param].store(served(request.param), tmp_path)


class Lines(logging.Handler):
    """A program's own log: what another formatter makes, with all that came beside the message."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.lines = []

    def emit(self, record):
        self.lines.append(logging.Formatter("%(message)s").format(record) + repr(vars(record)))


@pytest.fixture
def lines(monkeypatch):
    handler, logger = Lines(), logging.getLogger("onward")
    logger.addHandler(handler)
    monkeypatch.setattr(logger, "level", logging.DEBUG)
    yield handler.lines
    logger.removeHandler(handler)


@pytest.fixture
def unmasked(monkeypatch):
    """Nothing is masked any more, and no text is scrubbed."""
    monkeypatch.setattr(registry, "scrubber", lambda *_: str)
    monkeypatch.setattr(record, "masked", lambda value, *_: value)
    monkeypatch.setattr(timeline, "masked", lambda value: value)


@pytest.fixture
def search(store, lines, capsys, monkeypatch):
    """Run a job for each of these places, and look for the canary: ``search(["a list"])`` gives all that was looked at."""

    def search(places, **settings):
        settings |= getattr(store, "settings", {})
        jobs = open_till(store.url(), dead_letter_queue=COPIES, **settings)
        with jobs:
            heard = []
            jobs.on(Event, heard.append)
            monkeypatch.setattr(till, "noted", notes := [])
            monkeypatch.setattr(till, "read_note", lambda job_id: jobs.get(job_id).progress)
            ids, cancelled = [], []
            for place in places:
                enqueue = PLACES[place](jobs)
                ids.append(enqueue())
                cancelled.append(enqueue())
                assert jobs.cancel(cancelled[-1], ways_to_say(CANARY)) is State.CANCELLED
            jobs.drain(till.QUEUE)
            assert {jobs.get(job_id).state for job_id in ids} == {State.DISCARDED}
            assert [len(jobs.get(job_id).errors) for job_id in ids] == [3] * len(ids)
            assert jobs.telemetry.flush()
            found = {
                "notes": repr(notes),
                "events": repr(heard),
                "errors": repr([_error(jobs, job_id) for job_id in (*ids, *cancelled)]),
                "records": _records(jobs),
                "log": "\n".join(lines),
                "rows": _rows(store, jobs, sealed=jobs.settings.encryption),
            }
        return found | {"command line": _printed(store, capsys, monkeypatch, places, ids, settings)}

    return search


def _error(jobs, job_id):
    try:
        jobs.handle(job_id).result(0)
    except Exception as error:  # noqa: BLE001  it is looked at
        return error, vars(error)
    raise AssertionError(f"{job_id} has a result")


def _records(jobs):
    shown = [
        asdict(each) | {"raw": b"", "decrypted": None} for each in (*jobs.list(limit=500), *jobs.dead_letters.list())
    ]
    copies = [each.reveal() | {"payload": None} for each in jobs.list(queue=COPIES, limit=500)]
    return repr([shown, copies])


def _rows(store, jobs, *, sealed):
    """Without the sealed bytes, unless these have to be looked at too."""
    everything = store.everything()
    for each in () if sealed else jobs.list(limit=500):
        everything = everything.replace(each.raw, b"")
    return everything.decode("utf-8", "replace")


def _printed(store, capsys, monkeypatch, places, ids, settings):
    monkeypatch.setenv("ONWARD_URL", store.url())
    monkeypatch.setenv("ONWARD_STORE", settings.get("store", ""))
    applications = [[]]
    if places == [BY_NAME]:  # only the application knows that it is a secret

        class Module(ModuleType):
            @property
            def jobs(self):
                app = open_till(store.url(), **settings)
                PLACES[places[0]](app)
                return app

        monkeypatch.setitem(sys.modules, "till_app", Module("till_app"))
        applications.append(["--app", "till_app:jobs"])
    capsys.readouterr()
    for asked in (
        ["job", "list"],
        ["dead", "list"],
        ["queue", "list"],
        ["worker", "list"],
        *(["job", "show", i] for i in ids),
    ):
        for words in itertools.product(([], ["--json"]), applications):
            assert main([*asked, *itertools.chain(*words)]) in (0, 6), asked
    assert main(["top", "--once", "--interval", "0.1s", *applications[-1]]) == 0
    return "".join(capsys.readouterr())


def seen(found):
    """Where the canary is."""
    return {where for where, text in found.items() if any(sign in text for sign in SIGNS)}


EVERYWHERE = {"notes", "events", "errors", "records", "log", "rows", "command line"}
BY_NAME = "by name of another program"
TOGETHER = [place for place in PLACES if place != BY_NAME]


@pytest.mark.promise("CVE-2020-17495", "CVE-2023-40712")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_secret_is_found_nowhere_but_in_the_sealed_bytes(search, place):
    found = search([place])

    assert seen(found) == set()
    assert all("***" in found[where] for where in EVERYWHERE)


@pytest.mark.promise("CVE-2020-17495", "CVE-2023-40712")
@pytest.mark.parametrize("places", [TOGETHER, [BY_NAME]], ids=["all places", BY_NAME])
def test_no_store_shows_it(search, places):
    found = search(places)

    assert seen(found) == set()
    assert {where: found[where].count("***") >= len(places) for where in found} == dict.fromkeys(EVERYWHERE, True)


def test_encrypted_it_is_found_nowhere_at_all(search, store):
    pytest.importorskip("cryptography")

    found = search(TOGETHER, signing_keys=KEYS, encryption=True)

    assert seen(found) == set()
    assert not any(sign.encode() in store.everything() for sign in SIGNS)


@pytest.mark.parametrize("place", ["a parameter", "a dataclass", "a handler with a hook"])
def test_if_nothing_is_masked_it_is_found_everywhere(search, unmasked, place):
    assert seen(search([place])) == EVERYWHERE


def _without_arguments(kept):
    """What a broker was given, without the arguments of jobs; of a dead letter, without those of the job that died."""
    beginning, *letters = re.split(r"onward/1 - -\n", kept.decode("latin-1"))
    told = [beginning]
    for each in letters:
        letter, end = json.JSONDecoder().raw_decode(each)
        arguments = letter["payload"] if letter["job"] == "dead_letter" else letter
        del arguments["payload"]
        told += [json.dumps(letter), each[end:]]
    return "\n".join(told)


@pytest.fixture
def search_broker(broker, lines):
    """The same of a broker: it keeps no history, so what is there is what workers tell and what it was given."""

    def search(places):
        with open_till(broker.url(), dead_letter_queue=COPIES) as jobs:
            heard = []
            jobs.on(Event, heard.append)
            for place in places:
                PLACES[place](jobs)()
            jobs.drain(till.QUEUE)
            assert jobs.telemetry.flush()
            assert [type(each) for each in heard].count(JobDiscarded) == len(places)
            kept = broker.everything()
            assert CANARY.partition("-")[0].encode() in kept
        return {"events": repr(heard), "log": "\n".join(lines), "broker": _without_arguments(kept)}

    return search


def test_on_a_broker_it_is_found_nowhere_but_in_the_sealed_bytes(search_broker):
    found = search_broker(TOGETHER)

    assert seen(found) == set()
    assert all("***" in text for text in found.values())


def test_on_a_broker_it_is_found_if_nothing_is_masked(search_broker, unmasked):
    assert seen(search_broker(["a parameter"])) == {"events", "log", "broker"}


APPLICATION = """
import os
from onward import JobContext
from tests.security import till

jobs = till.open_till(os.environ["ONWARD_URL"], dead_letter_queue="dead")
enqueue = {name: define(jobs) for name, define in till.PLACES.items()}

@jobs.job(isolation="process", **(till.BUDGET | {"queue": "alone"}))
def alone(ctx: JobContext, order: till.Order) -> None:
    till.betray(ctx, order.card.reveal())
"""


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_worker_of_its_own_tells_it_nowhere_either(tmp_path, monkeypatch, log_format):
    (tmp_path / "till_program.py").write_text(APPLICATION)
    store = ENGINES["sqlite"].store(None, tmp_path)
    monkeypatch.setenv("ONWARD_URL", store.url())
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "till_program", raising=False)
    program = importlib.import_module("till_program")
    with program.jobs as jobs:
        ids = [enqueue() for enqueue in program.enqueue.values()]
        ids.append(program.alone.enqueue(till.Order(7, Secret(CANARY))).id)
        command = [
            sys.executable,
            "-m",
            "onward",
            "worker",
            "till_program:jobs",
            "--until-empty",
            "--log-format",
            log_format,
        ]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

        assert ran.returncode == 0, ran.stderr
        assert {jobs.get(job_id).state for job_id in ids} == {State.DISCARDED}
        found = {"output": ran.stdout + ran.stderr, "records": _records(jobs), "rows": _rows(store, jobs, sealed=False)}
    assert seen(found) == set()
    assert found["output"].count("***") > len(ids)
