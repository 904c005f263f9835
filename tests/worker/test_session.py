"""The session by itself: how long it is fresh, when it is renewed, and who may judge others."""

from datetime import timedelta

import pytest

from onward.backend import Renewal
from onward.errors import BackendUnavailable
from onward.worker.session import SessionKeeper
from onward.worker.store_contact import StoreContact


class Store:
    """Answers as it is told to."""

    def __init__(self, clock):
        self.clock = clock
        self.takes = 0.0
        self.answer = Renewal(alive=True)
        self.extended = []

    def open_session(self, session, *, adopts=None):
        self.clock.now += self.takes
        return []

    def extend(self, owner):
        self.extended.append(owner)
        self.clock.now += self.takes
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Events:
    """Writes down what a session reports."""

    def __init__(self, events):
        self.on_renewal = lambda owner, renewal: events.append((owner, renewal.alive))
        self.on_fresh = lambda: events.append("fresh")
        self.on_died = events.append


class ManualClock:
    """A clock moved by the test."""

    def __init__(self, now=1_000.0):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def wall():
    return ManualClock(1_700_000_000.0)


@pytest.fixture
def store(clock):
    return Store(clock)


@pytest.fixture
def events():
    return []


@pytest.fixture
def session(store, clock, wall, events):
    return SessionKeeper(
        store,
        timedelta(seconds=30),
        Events(events),
        contact=StoreContact(30.0, clock=clock, wall=wall),
    )


def pass_time(seconds, *clocks):
    for clock in clocks:
        clock.now += seconds


class TestFreshness:
    def test_before_it_is_opened_it_is_stale(self, session):
        assert not session.fresh()

    def test_it_is_fresh_for_the_lease_without_a_margin(self, session, clock):
        session.open("me")

        clock.now += 24.9
        assert session.fresh()
        clock.now += 0.2
        assert not session.fresh()

    def test_it_counts_from_when_it_was_asked(self, session, store, clock):
        store.takes = 20.0
        session.open("me")

        clock.now += 4.9
        assert session.fresh()
        clock.now += 0.2
        assert not session.fresh()

    def test_a_renewal_makes_it_fresh_again(self, session, clock, events):
        session.open("me")
        clock.now += 60
        events.clear()

        session.renew()

        assert session.fresh()
        assert events == ["fresh", ("me", True)]

    def test_a_renewal_of_a_fresh_one_reports_only_that_it_lives(self, session, clock, events):
        session.open("me")
        events.clear()

        session.renew()

        assert events == [("me", True)]

    def test_nothing_is_fresh_before_what_is_held_was_compared(self, session, clock):
        session.open("me")
        clock.now += 60
        seen = []

        session.open("successor", adopts="me", compare=lambda held: seen.append((held, session.fresh(), session.owner)))

        assert seen == [([], False, "me")]
        assert session.fresh()
        assert session.owner == "successor"

    def test_a_failed_renewal_makes_it_stale(self, session, store):
        session.open("me")
        store.answer = BackendUnavailable("away")

        assert session.renew() is False
        assert not session.fresh()

    def test_a_dead_session_is_stale_and_told(self, session, store, events):
        session.open("me")
        store.answer = Renewal(alive=False)

        session.renew()

        assert not session.fresh()
        assert events[-1] == ("me", False)

    def test_an_answer_about_a_predecessor_is_ignored(self, session, store, events, monkeypatch):
        session.open("me")

        def extend(owner):
            session.open("successor", adopts="me")
            return Renewal(alive=False)

        monkeypatch.setattr(store, "extend", extend)
        events.clear()
        session.renew()

        assert session.fresh()
        assert events == []


class TestTheThread:
    def test_a_stale_session_is_renewed_as_soon_as_it_is_asked_for(self, session, store, clock, eventually):
        session.open("me")
        session.start()
        clock.now += 60

        assert not session.fresh()
        eventually(session.fresh)

        assert store.extended == ["me"]
        session.end()

    def test_a_dead_session_is_not_asked_about_again(self, session, store, clock, events, eventually):
        session.open("me")
        session.start()
        clock.now += 60
        store.answer = Renewal(alive=False)
        session.fresh()
        eventually(lambda: ("me", False) in events)

        for _ in range(1_000):
            session.fresh()

        assert store.extended == ["me"]
        session.end()

    def test_a_store_that_is_away_is_not_asked_by_everybody(self, session, store, clock, eventually):
        session.open("me")
        session.start()
        clock.now += 60
        store.answer = BackendUnavailable("away")

        eventually(lambda: session.fresh() or len(store.extended) >= 3)

        assert len(store.extended) < 10
        session.end()

    def test_whatever_else_it_raises_is_the_end_of_the_worker(self, session, store, clock, events, eventually):
        session.open("me")
        session.start()
        clock.now += 60
        store.answer = ZeroDivisionError("a bug")
        session.fresh()

        eventually(lambda: store.answer in events)


class TestUse:
    """Its thread renews every third of a lease, and only while the session is used and lives."""

    @pytest.fixture
    def make(self, clock):
        made = []

        def make():
            store, events = Store(clock), []
            session = SessionKeeper(store, timedelta(seconds=0.03), Events(events))
            session.open("me")
            made.append(session)
            return session, store, events

        yield make
        for session in made:
            session.end()

    @pytest.fixture
    def while_another_is_renewed(self, make, eventually):
        def wait():
            session, store, _ = make()
            session.start()
            eventually(lambda: len(store.extended) >= 5)

        return wait

    def test_it_is_renewed_until_its_last_use_ends(self, make, eventually, while_another_is_renewed):
        session, store, _ = make()
        session.start()
        session.start()
        assert not session.stop()
        eventually(lambda: len(store.extended) >= 3)

        assert session.stop()

        before = len(store.extended)
        while_another_is_renewed()
        assert len(store.extended) <= before + 1  # one may have been on its way

    def test_used_again_it_is_renewed_again(self, make, eventually, while_another_is_renewed):
        session, store, _ = make()
        session.start()
        session.stop()
        while_another_is_renewed()

        session.start()

        before = len(store.extended)
        eventually(lambda: len(store.extended) >= before + 2)

    def test_a_dead_one_is_asked_about_once(self, make, eventually, while_another_is_renewed):
        session, store, events = make()
        store.answer = Renewal(alive=False)
        session.start()
        eventually(lambda: ("me", False) in events)

        while_another_is_renewed()

        assert store.extended == ["me"]

    def test_its_successor_is_renewed(self, make, eventually):
        session, store, events = make()
        store.answer = Renewal(alive=False)
        session.start()
        eventually(lambda: ("me", False) in events)

        store.answer = Renewal(alive=True)
        session.open("successor")

        eventually(lambda: store.extended[-1] == "successor")


class TestJudging:
    def test_after_one_lease_of_contact(self, session, clock, wall):
        session.open("me")
        for _ in range(3):
            assert not session.contact.may_reap()
            pass_time(10, clock, wall)
            session.renew()

        assert session.contact.may_reap()

    @pytest.mark.parametrize("gap", ["a failed call", "a pause of its own", "a step of the clock"])
    def test_a_gap_begins_it_anew(self, session, store, clock, wall, gap):
        session.open("me")
        for _ in range(4):
            pass_time(10, clock, wall)
            session.renew()
        assert session.contact.may_reap()

        match gap:
            case "a failed call":
                store.answer = BackendUnavailable("away")
                session.renew()
                store.answer = Renewal(alive=True)
            case "a pause of its own":
                pass_time(40, clock, wall)
            case "a step of the clock":
                wall.now += 3600
        session.renew()

        assert not session.contact.may_reap()
        for _ in range(3):
            pass_time(10, clock, wall)
            session.renew()
        assert session.contact.may_reap()

    def test_a_call_of_the_pump_that_failed_is_a_gap_too(self, session, clock, wall):
        session.open("me")
        for _ in range(4):
            pass_time(10, clock, wall)
            session.renew()

        session.out_of_contact()

        assert not session.fresh()
        session.renew()
        assert session.fresh()
        assert not session.contact.may_reap()
