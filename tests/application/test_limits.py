"""Limits, rates and turns as users meet them."""

import logging
import threading

import pytest

from onward import ArgumentError, Breaker, InvalidLimit, Limit, Onward, OptionError, State, Throttle
from onward.errors import BackendError, DefinitionError, InvalidName
from onward.flow.lanes import lane_of
from onward.flow.limits import Bounds
from onward.job.envelope import open_sealed
from onward.testing import FakeClock


@pytest.fixture(params=["memory://", "sqlite:///{path}/jobs.db"])
def url(request, tmp_path):
    return request.param.format(path=tmp_path)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def jobs(url, clock):
    with Onward(url, clock=clock) as jobs:
        yield jobs


def lanes_of(job, calls, **using):
    return [envelope.lane for envelope in job.using(**using).sealed_many(calls)]


class TestDefining:
    @pytest.mark.parametrize(
        ("limit", "told"),
        [
            (5, "limit takes Limit"),
            ((Limit(running=1, by="tenant"), Limit(running=2, by="pages")), "2 limits with by"),
        ],
    )
    def test_what_is_no_limit_is_refused_where_it_is_said(self, jobs, limit, told):
        with pytest.raises(InvalidLimit, match=told):

            @jobs.job(limit=limit)
            def render(tenant: str, pages: int) -> None: ...

    @pytest.mark.parametrize("said", [{"by": "tennant"}, {"rate": "1/s", "cost": "page"}])
    def test_a_name_that_is_no_parameter_is_refused_where_it_is_said(self, jobs, said):
        with pytest.raises(DefinitionError, match=r"did you mean '(tenant|pages)'"):

            @jobs.job(limit=Limit(**({"running": 1} | said)))
            def render(tenant: str, pages: int) -> None: ...

    def test_by_on_the_limit_of_a_queue_is_refused(self, url):
        with pytest.raises(InvalidLimit, match="cannot have by or cost"):
            Onward(url, queue_limits={"mail": Limit(running=1, by="tenant")})

    def test_what_is_no_limit_of_a_queue_is_refused(self, url):
        with pytest.raises(InvalidLimit, match="the limit of queue 'mail' must be a Limit"):
            Onward(url, queue_limits={"mail": 5})

    @pytest.mark.parametrize("given", [5, Limit(running=1), [("mail", Limit(running=1))]])
    def test_limits_of_queues_are_said_by_queue(self, url, given):
        with pytest.raises(InvalidLimit, match=r"queue_limits takes limits by queue, \{'mail': Limit"):
            Onward(url, queue_limits=given)

    def test_fair_by_names_a_parameter(self, url):
        with pytest.raises(OptionError, match="fair_by names a parameter"):
            Onward(url, fair_by="the tenant")

    @pytest.mark.promise("L56")
    @pytest.mark.parametrize("store", [None, "sqlite:///{path}/beside.db"])
    def test_a_broker_refuses_alone_and_with_a_store_and_names_the_fix(self, store, tmp_path):
        url, beside = "beanstalk://localhost:1", {} if store is None else {"store": store.format(path=tmp_path)}
        jobs = Onward(url, **beside)
        with pytest.raises(OptionError, match=r"cannot keep limit .*use a database or Redis as the url"):

            @jobs.job(limit=Limit(running=1))
            def render() -> None: ...

        with pytest.raises(OptionError, match="cannot keep fair_by"):
            Onward(url, fair_by="tenant", **beside)
        with pytest.raises(OptionError, match="cannot keep queue_limits"):
            Onward(url, queue_limits={"mail": Limit(running=1)}, **beside)
        with pytest.raises(OptionError, match="cannot keep breaker"):

            @jobs.job(breaker=Breaker())
            def charge() -> None: ...

        @jobs.job
        def plain() -> None: ...

        with pytest.raises(OptionError, match="cannot keep lane"):
            plain.using(lane="acme").sealed_many([()])


class TestLanesOfCalls:
    def test_a_job_without_a_limit_has_no_lane_and_its_letter_has_no_word_about_one(self, jobs):
        @jobs.job
        def plain(tenant: str) -> None: ...

        (envelope,) = plain.sealed_many([("acme",)])

        assert (envelope.lane, envelope.cost) == (None, None)
        assert b"lane" not in envelope.data
        assert b"cost" not in envelope.data

    def test_a_limit_gives_a_job_a_lane_of_its_own(self, jobs):
        @jobs.job(limit=Limit(running=1))
        def render(tenant: str) -> None: ...

        assert lanes_of(render, [("a",), ("b",)]) == ["render/", "render/"]
        assert lanes_of(render, [("a",)], lane="acme") == [lane_of("render", "acme")]

    def test_by_gives_every_value_a_lane_and_cost_is_sealed(self, jobs):
        @jobs.job(limit=Limit(rate="10/s", by="tenant", cost="pages"))
        def render(tenant: str | None, pages: int = 1) -> None: ...

        envelopes = render.sealed_many([("acme", 3), ("other",), (None,)])

        assert [(each.lane, each.cost) for each in envelopes] == [
            (lane_of("render", "acme"), 3),
            (lane_of("render", "other"), None),
            ("render/", None),
        ]
        letter = open_sealed(envelopes[0])
        assert (letter.lane, letter.cost) == (envelopes[0].lane, 3)

    def test_a_key_may_come_from_meta_also_where_it_is_stamped(self, jobs):
        @jobs.job(limit=Limit(running=1, by="meta.tenant"))
        def render() -> None: ...

        assert lanes_of(render, [()], meta={"tenant": "acme"}) == [lane_of("render", "acme")]
        jobs.stamp(lambda job: {"tenant": "stamped"})
        assert lanes_of(render, [()]) == [lane_of("render", "stamped")]

    def test_fair_by_gives_lanes_to_jobs_that_have_the_parameter(self, url):
        with Onward(url, fair_by="tenant") as jobs:

            @jobs.job
            def render(tenant: str) -> None: ...

            @jobs.job
            def plain(other: str) -> None: ...

            assert lanes_of(render, [("acme",)]) == [lane_of("", "acme")]
            assert lanes_of(plain, [("acme",)]) == [None]

    @pytest.mark.parametrize(
        ("call", "told"),
        [
            (("x" * 300, 1), "has 300 characters"),
            (("a\nb", 1), "must be printable"),
            (("acme", 0), "from 1 to"),
            (("acme", 10**9), "from 1 to"),
        ],
    )
    def test_a_call_that_cannot_have_a_lane_is_refused_whole(self, jobs, call, told):
        @jobs.job(limit=Limit(rate="10/s", by="tenant", cost="pages"))
        def render(tenant: str, pages: int) -> None: ...

        with pytest.raises(ArgumentError, match=told):
            render.enqueue_many([("fine", 1), call])
        assert sum(jobs.counts().values()) == 0

    def test_people_are_shown_the_lane_of_a_job(self, jobs):
        @jobs.job(limit=Limit(running=1))
        def render() -> None: ...

        @jobs.job
        def plain() -> None: ...

        handles = [
            render.using(lane="a/b").enqueue(),
            render.enqueue(),
            plain.using(lane="c").enqueue(),
            plain.enqueue(),
        ]

        assert [jobs.get(handle.id).lane for handle in handles] == ["render/a/b", "render", "/c", None]
        jobs.drain()
        assert [jobs.get(handle.id).lane for handle in handles] == ["render/a/b", "render", "/c", None]

    def test_a_lane_that_is_said_is_checked(self, jobs):
        @jobs.job
        def plain() -> None: ...

        with pytest.raises(InvalidName, match="lane must be printable text of 1 to 200"):
            plain.using(lane="x" * 201)


class TestRunning:
    def test_a_worker_runs_no_more_than_the_limit_and_all_of_them(self, url):
        running, most, gate = 0, 0, threading.Lock()
        two = threading.Barrier(2, timeout=20)
        with Onward(url) as jobs:

            @jobs.job(limit=Limit(running=2))
            def narrow() -> None:
                nonlocal running, most
                with gate:
                    running += 1
                    most = max(most, running)
                two.wait()  # two run at once, or none goes on
                with gate:
                    running -= 1

            handles = narrow.enqueue_many([()] * 20)
            with jobs.worker(concurrency=8):
                jobs.results(handles, timeout=30)
            assert most == 2

    def test_what_is_not_limited_goes_on_beside_a_full_job(self, url):
        free = threading.Event()
        with Onward(url) as jobs:

            @jobs.job(limit=Limit(running=1))
            def narrow() -> None:
                free.wait(20)

            @jobs.job
            def plain() -> int:
                return 1

            narrow.enqueue_many([()] * 50)
            with jobs.worker(concurrency=4):
                assert jobs.results(plain.enqueue_many([()] * 20), timeout=20) == [1] * 20
                free.set()

    def test_a_worker_without_a_free_slot_does_not_ask_again_and_again(self, url):
        with Onward(url) as jobs:
            turns, store = [], jobs.backend.turn
            jobs.backend.turn = lambda turn: turns.append(turn) or store(turn)

            @jobs.job(limit=Limit(running=1, by="tenant"))
            def render(tenant: str) -> None:
                threading.Event().wait(0.05)  # others wait, and could start if there were a slot

            handles = render.enqueue_many([(f"tenant-{number % 100}",) for number in range(200)])
            with jobs.worker(concurrency=10):
                jobs.results(handles, timeout=60)

            assert len(turns) < 2 * len(handles) + 50  # one to claim each, one to settle it

    def test_limits_of_queues_hold_for_plain_jobs(self, url, clock):
        with Onward(url, clock=clock, queue_limits={"mail": Limit(rate="5/min")}) as jobs:

            @jobs.job(queue="mail")
            def send() -> None: ...

            send.enqueue_many([()] * 8)

            assert jobs.drain() == 5
            clock.advance(12)
            assert jobs.drain() == 1

    def test_a_job_that_is_defined_later_is_limited_too(self, jobs):
        @jobs.job
        def first() -> None: ...

        first.enqueue()
        assert jobs.drain() == 1

        @jobs.job(limit=Limit(rate="2/min"))
        def second() -> None: ...

        second.enqueue_many([()] * 5)
        assert jobs.drain() == 2

    def test_a_key_that_is_throttled_waits_and_others_go_on(self, jobs, clock):
        tried = []

        @jobs.job(limit=Limit(running=5, by="customer"))
        def fetch(customer: str) -> None:
            tried.append(customer)
            if tried.count("a") == 1 and customer == "a":
                raise Throttle(after=30)

        first = fetch.enqueue("a")
        fetch.enqueue_many([("a",), ("b",), ("b",)])
        jobs.drain()

        assert sorted(tried) == ["a", "b", "b"]
        assert jobs.get(first.id).attempts == 0
        clock.advance(31)
        jobs.drain()
        assert sorted(tried) == ["a", "a", "a", "b", "b"]

    def test_throttle_without_a_limit_snoozes_and_says_so_once(self, jobs, clock, caplog):
        @jobs.job
        def fetch() -> None:
            raise Throttle(after=30)

        handles = fetch.enqueue_many([(), ()])
        with caplog.at_level(logging.WARNING, logger="onward"):
            assert jobs.drain() == 2

        assert [handle.state() for handle in handles] == [State.SCHEDULED] * 2
        assert len([line for line in caplog.messages if "raised Throttle and has no limit" in line]) == 1


class TestSync:
    """Jobs that run where they are enqueued: the clock jumps to the next token."""

    def test_all_jobs_of_a_rate_run_each_at_its_time(self):
        with Onward("sync://") as jobs:
            starts = []

            @jobs.job(limit=Limit(rate="10/min", by="customer"))
            def call(customer: str) -> None:
                starts.append(jobs.backend.clock.micros())

            call.enqueue_many([("a",)] * 25)

            assert len(starts) == 25
            assert starts[-1] - starts[0] > 14 * 6_000_000  # the handler looks a moment after its claim

    def test_a_job_that_is_shut_by_hand_waits_and_the_clock_does_not_jump(self):
        with Onward("sync://") as jobs:

            @jobs.job(limit=Limit(running=1))
            def call() -> None: ...

            jobs.limits.shut("call")
            before = jobs.backend.clock.micros()
            handle = call.enqueue()

            assert handle.state() is State.AVAILABLE
            assert jobs.backend.clock.micros() - before < 60_000_000
            jobs.limits.open("call")
            assert jobs.drain() == 1


class TestControl:
    def test_what_is_set_counts_at_the_next_claim_until_it_is_cleared(self, jobs, clock):
        @jobs.job(limit=Limit(rate="10/min"))
        def call() -> None: ...

        call.enqueue_many([()] * 30)
        assert jobs.drain() == 10
        jobs.limits.set("call", rate="2/min")
        clock.advance(600)
        assert jobs.drain() == 2
        jobs.limits.clear("call")
        clock.advance(600)
        assert jobs.drain() == 10

    def test_limits_are_listed_with_what_is_used(self, jobs):
        @jobs.job(limit=(Limit(running=5), Limit(running=2, by="tenant")))
        def render(tenant: str) -> None: ...

        jobs.limits.set("render", running=3)
        assert [(each.kind, each.running) for each in jobs.limits.list()] == [("job", 3)]
        render.enqueue("acme")
        jobs.drain()

        job, key = jobs.limits.list()

        assert (job.kind, job.name, job.running, job.declared, job.chosen, job.running_now) == (
            "job",
            "render",
            3,
            Bounds(running=5),
            Bounds(running=3),
            0,
        )
        assert (key.kind, key.running, key.is_shut) == ("key", 2, False)

    def test_a_job_is_shut_and_opened_by_hand(self, jobs, clock):
        @jobs.job(limit=Limit(running=5))
        def charge() -> None: ...

        charge.enqueue()
        jobs.drain("other")
        jobs.limits.shut("charge")
        assert jobs.drain() == 0
        assert [(each.is_shut, each.shut_until) for each in jobs.limits.list()] == [(True, None)]
        clock.advance(10_000_000)
        assert jobs.drain() == 0
        jobs.limits.open("charge")
        assert jobs.drain() == 1

    def test_opening_a_job_by_hand_opens_a_key_that_was_throttled(self, jobs, clock):
        tried = []

        @jobs.job(limit=Limit(running=5, by="customer"))
        def fetch(customer: str) -> None:
            tried.append(customer)
            if len(tried) == 1:
                raise Throttle(after="10m")

        fetch.enqueue("a")
        jobs.drain()
        jobs.limits.open("fetch")
        fetch.enqueue("a")

        assert jobs.drain() == 1

    @pytest.mark.parametrize("act", ["shut", "open"])
    def test_jobs_of_which_one_is_unknown_are_left_as_they_are(self, jobs, act):
        @jobs.job(limit=Limit(running=5))
        def charge() -> None: ...

        jobs.drain()
        if act == "open":
            jobs.limits.shut("charge")
        before = jobs.limits.list()

        with pytest.raises(InvalidLimit, match="'nothing' declares no limit"):
            getattr(jobs.limits, act)("charge", "nothing")

        assert jobs.limits.list() == before

    def test_a_limit_of_each_key_needs_keys(self, jobs):
        @jobs.job(limit=Limit(running=5))
        def charge() -> None: ...

        with pytest.raises(InvalidLimit, match=r"no keys are counted: give it one in the code, .*by='tenant'"):
            jobs.limits.set("charge", each_key=True, running=1)
        with pytest.raises(InvalidLimit, match="each_key is for jobs"):
            jobs.limits.set(queue="mail", each_key=True, running=1)
        assert jobs.limits.list() == []

    def test_the_limit_of_a_queue_that_left_the_code_is_forgotten(self, tmp_path):
        url = f"sqlite:///{tmp_path}/jobs.db"
        with Onward(url, queue_limits={"mail": Limit(rate="1/h")}) as before:

            @before.job(queue="mail")
            def send() -> None: ...

            send.enqueue_many([()] * 3)
            assert before.drain("mail") == 1
            with pytest.raises(
                InvalidLimit, match="queue 'mail' has its limit from this code: leave it out there first"
            ):
                before.limits.forget(queue="mail")

        with Onward(url) as after:

            @after.job(name="send", queue="mail")
            def still_sends() -> None: ...

            assert after.drain("mail") == 0
            after.limits.forget(queue="mail")
            assert after.drain("mail") == 2
            assert after.limits.list() == []
            with pytest.raises(InvalidLimit, match="queue 'mail' has no limit"):
                after.limits.forget(queue="mail")

    @pytest.mark.parametrize("act", ["set", "shut", "open", "clear"])
    def test_a_job_without_a_limit_cannot_be_limited(self, jobs, act):
        @jobs.job
        def plain() -> None: ...

        numbers = {"running": 1} if act == "set" else {}
        with pytest.raises(InvalidLimit, match="declares no limit, so its jobs are in no lane of their own"):
            getattr(jobs.limits, act)("plain", **numbers)

    def test_a_limit_names_a_job_or_a_queue(self, jobs):
        with pytest.raises(InvalidLimit, match="name a job or a queue"):
            jobs.limits.set(running=1)
        with pytest.raises(InvalidLimit, match="needs running"):
            jobs.limits.set(queue="mail")
        jobs.limits.set(queue="mail", running=1)
        assert [each.name for each in jobs.limits.list()] == ["mail"]

    def test_a_store_without_lanes_has_no_limits_to_list(self):
        with pytest.raises(BackendError, match="declares no `lanes`"):
            Onward("beanstalk://localhost:1").limits.list()
