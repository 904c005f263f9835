"""The supervisor's thread that talks to the store: what it owes it pays, however long the store is away."""

import threading
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

import pytest

from onward import Onward, State
from onward.backend import Claim, Look, Session, Turn
from onward.backends.memory import MemoryBackend
from onward.config import Settings
from onward.errors import BackendRefused, BackendUnavailable
from onward.job.definition import EnqueueOptions
from onward.operate.series.measured import Measured
from onward.supervisor.store_thread import DeadSessions, StoreThread
from onward.telemetry.numbers import Numbers, Pair
from onward.testing.contract.builders import a_session as a_session_of
from onward.testing.contract.builders import some_envelopes
from tests.supervisor.fleets import eventually, let_pass
from tests.worker.stores import Weather, weathered

LEASE = 1.0


class Diary(Weather):
    """Notes which calls were answered, and when."""

    def __init__(self):
        super().__init__(("extend", "reap"))
        self.answered = []

    def around(self, verb, call):
        answer = super().around(verb, call)
        self.answered.append((verb, time.monotonic()))
        return answer


class Processes(NamedTuple):
    """Worker processes with these sessions, and what they have counted."""

    owners: tuple[str, ...]
    numbers: Mapping[Pair, Numbers] = {}

    def sessions(self):
        return list(enumerate(self.owners))

    def counted(self):
        return self.numbers

    def events_dropped(self):
        return 2


@pytest.fixture
def weather():
    return Diary()


@pytest.fixture
def backend(weather):
    return type("Backend", (weathered(weather), MemoryBackend), {})()


@pytest.fixture
def told():
    """What the store thread reports: the sessions it renewed, the leases it gave back, and what it died of."""
    return {"renewed": [], "rescued": [], "gave_back": [], "died": []}


@pytest.fixture
def keep(backend, told):
    """Start a store thread: ``keep("owner", …)`` of these sessions."""
    started = []

    def keep(*owners, open_store=None, numbers=None):
        store_thread = StoreThread(
            open_store or (lambda settings: backend),
            Settings(lease_for=LEASE),
            ["default"],
            processes=Processes(owners, {} if numbers is None else numbers),
            renewed=lambda number, renewed: told["renewed"].append((number, renewed)),
            rescued=told["rescued"].extend,
            gave_back=lambda: told["gave_back"].append(True),
            died=told["died"].append,
        )
        started.append(store_thread)
        store_thread.start()
        return store_thread

    yield keep
    for store_thread in started:
        store_thread.stop()
    assert told["died"] == [] or told["died"][0] is not None


def lease(backend, owner, *, queue="default"):
    """A job that this owner runs, as its id and token."""
    with Onward("memory://") as jobs:
        sealed = jobs.client.letters.seal_by_name("job", {}, EnqueueOptions.check({"queue": queue}))
    backend.enqueue([sealed])
    backend.open_session(Session(owner=owner, lease_for=timedelta(seconds=LEASE), host="here", pid=1, version="0"))
    (taken,) = backend.turn(Turn(owner=owner, claim=Claim(queues=(queue,), limit=1))).leases
    return taken.envelope.id, taken.token


def test_sessions_are_renewed_and_those_who_are_asked_to_cancel_are_told(backend, keep, told):
    running = lease(backend, "living")
    backend.cancel([running[0]], "enough")
    keep("living", "unknown")
    eventually(lambda: len(told["renewed"]) >= 6)

    answers = {(number, renewed.owner, renewed.alive, renewed.cancel_requested) for number, renewed in told["renewed"]}
    assert answers == {(0, "living", True, (running,)), (1, "unknown", False, ())}
    let_pass(LEASE)
    assert backend.extend("living").alive


@pytest.mark.promise("F16")
def test_what_is_owed_is_paid_when_the_store_is_back(backend, keep, told, weather):
    crashed, idle = lease(backend, "dead"), lease(backend, "dead")
    store_thread = keep()
    weather.error = BackendUnavailable("away")
    store_thread.give_back(DeadSessions(["dead", "its successor"], [crashed], "killed by SIGKILL"))
    eventually(lambda: weather.failed >= 3)
    assert (store_thread.busy, told["rescued"]) == (True, [])
    weather.error = None
    eventually(lambda: not store_thread.busy)

    assert {(reaped.id, reaped.to, reaped.crashed) for reaped in told["rescued"]} == {
        (crashed[0], State.RETRYABLE, True),
        (idle[0], State.AVAILABLE, False),
    }
    eventually(lambda: told["gave_back"])


@pytest.mark.promise("F11")
def test_a_session_that_cannot_be_ended_delays_neither_the_others_nor_the_renewals(backend, keep, told):
    lease(backend, "poison")
    other = lease(backend, "dead", queue="other")

    class Picky:
        def __getattr__(self, name):
            return getattr(backend, name)

        def reap(self, *, owner=None, **options):
            if owner == "poison":
                raise BackendRefused("not this one")
            return backend.reap(owner=owner, **options)

    store_thread = keep("living", open_store=lambda settings: Picky())
    store_thread.give_back(DeadSessions(["poison"], [], "killed"))
    store_thread.give_back(DeadSessions(["dead"], [], "killed"))
    eventually(lambda: told["rescued"])
    renewals = len(told["renewed"])
    eventually(lambda: len(told["renewed"]) >= renewals + 3)

    assert [reaped.id for reaped in told["rescued"]] == [other[0]]
    assert store_thread.busy


@pytest.mark.promise("A5", "F25")
def test_after_an_outage_the_dead_are_told_from_the_living_only_after_a_lease_of_contact(backend, keep, weather):
    """Even by a supervisor that has no sessions of its own to renew."""
    living = lease(backend, "living")
    keep()
    eventually(lambda: weather.answered)
    weather.error = BackendUnavailable("away")
    let_pass(1.5 * LEASE)
    weather.answered.clear()
    weather.error = None
    eventually(lambda: [verb for verb, _ in weather.answered].count("reap"))

    contact = next(at for verb, at in weather.answered if verb == "extend")
    sweep = next(at for verb, at in weather.answered if verb == "reap")
    assert sweep - contact >= 0.9 * LEASE
    assert living


@pytest.mark.promise("F06")
def test_a_store_that_cannot_be_opened_for_want_of_a_file_is_tried_again(backend, keep, told):
    tries = []

    def open_store(settings):
        tries.append(settings)
        if len(tries) < 3:
            raise OSError(24, "Too many open files")
        return backend

    keep("living", open_store=open_store)
    eventually(lambda: told["renewed"])

    assert len(tries) == 3
    assert told["died"] == []


@pytest.mark.promise("A16")
def test_an_unforeseen_error_is_not_survived_in_silence(backend, keep, told, weather):
    weather.error = ZeroDivisionError("unforeseen")
    keep("living")
    eventually(lambda: told["died"])

    assert isinstance(told["died"][0], ZeroDivisionError)


@pytest.mark.promise("F82")
def test_stopping_does_not_wait_for_a_store_that_does_not_answer(backend, keep, told, monkeypatch):
    monkeypatch.setattr("onward.supervisor.store_thread._LONGEST_PAUSE", 0.2)
    asked, answer, closed = threading.Event(), threading.Event(), []

    class Slow:
        def __getattr__(self, name):
            return getattr(backend, name)

        def extend(self, owner, *, sample=None):
            asked.set()
            assert answer.wait(30)
            raise ZeroDivisionError("too late to matter")

        def close(self):
            closed.append(True)

    store_thread = keep("living", open_store=lambda settings: Slow())
    assert asked.wait(30)
    began = time.monotonic()
    store_thread.stop()
    took = time.monotonic() - began
    answer.set()
    store_thread._thread.join(30)

    assert took < 10
    assert (closed, told["died"]) == ([], [])


class TestSamples:
    def test_the_first_renewal_of_a_round_brings_what_the_processes_have_counted(self, backend, keep, told, weather):
        for owner in ("one", "two"):
            backend.open_session(a_session_of(owner))
        samples = []
        extend = backend.extend
        backend.extend = lambda owner, *, sample=None: samples.append((owner, sample)) or extend(owner, sample=sample)
        keep("one", "two", numbers={("mail", "send"): Numbers({"jobs_succeeded": 3})})
        eventually(lambda: len(told["renewed"]) >= 6)

        assert [owner for owner, _ in samples[:2]] == ["one", "two"]
        assert [sample is not None for _, sample in samples[:2]] == [True, False]
        sent = [sample for owner, sample in samples if sample is not None and sample.reporter != "*"]
        assert len(sent) == 1  # no more than one in nine seconds
        measured = Measured.decoded(sent[0].data)
        assert measured.numbers == {("mail", "send"): Numbers({"jobs_succeeded": 3})}
        assert measured.events_dropped == 2

    def test_the_sampler_looks_at_the_store_once_and_stores_what_it_has_seen(self, backend, keep, told):
        backend.enqueue(some_envelopes(3, queue="mail"))
        looks = []
        look = backend.look
        backend.look = lambda asked: looks.append(asked) or look(asked)
        keep()

        def sampled():
            seen = [row for row in look(Look(series=(0, 1 << 60))).series if row.reporter == "*" and row.data]
            return [Measured.decoded(row.data).queues for row in seen]

        (levels, *_) = eventually(sampled)
        assert {name: level.depth for name, level in levels.items()} == {"mail": 3}
        assert sum(asked.counts for asked in looks) == len(sampled())

    def test_what_was_counted_last_is_sent_when_the_supervisor_stops(self, backend, keep, told):
        numbers = {}
        store_thread = keep(numbers=numbers)
        eventually(lambda: told["renewed"])
        numbers["mail", "send"] = Numbers({"jobs_succeeded": 7})
        seen = []
        backend.close = lambda: seen.extend(backend.look(Look(series=(0, 1 << 60))).series)

        store_thread.stop()

        counted = [Measured.decoded(row.data).numbers for row in seen]
        assert {("mail", "send"): Numbers({"jobs_succeeded": 7})} in counted

    @pytest.mark.promise("S123")
    @pytest.mark.parametrize("trouble", [BackendUnavailable("no samples"), ZeroDivisionError("a bug")])
    def test_trouble_with_samples_is_no_outage(self, backend, keep, told, monkeypatch, trouble):
        def refusing(self, sample):
            raise trouble

        monkeypatch.setattr(MemoryBackend, "_keep_sample", refusing)
        backend.open_session(a_session_of("one"))
        keep("one")
        eventually(lambda: len(told["renewed"]) >= 3)

        assert all(renewed.alive for _, renewed in told["renewed"])
        assert told["died"] == []
