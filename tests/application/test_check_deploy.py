"""Whether a build can run every job that waits: asked of every store, and compared with what a worker does."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward import Onward, OptionError, Secret
from onward.attempt.attempt import Ready, run
from onward.attempt.prepare import prepare
from onward.backend import Lease, Session
from onward.contract.description import WorkerDescription
from onward.errors import Unsupported
from onward.job.envelope import Sealed
from onward.job.states import State
from onward.operate.deploy.gate import trouble_of
from tests.servers.engines import ENGINES, MariaDBStore, PostgresStore, RedisStore, SqliteStore


@pytest.fixture(params=[*ENGINES])
def engine(request, folder):
    match request.param:
        case "sqlite":
            return SqliteStore(None, folder)
        case "postgres":
            return PostgresStore(request.getfixturevalue("newest_postgres"), folder)
        case "mariadb":
            return MariaDBStore(request.getfixturevalue("mariadb"), folder)
        case _:
            return RedisStore(request.getfixturevalue("redis_server"), folder)


@pytest.fixture(scope="module")
def redis_server():
    with ENGINES["redis"].server() as server:
        yield server


@pytest.fixture
def build(tmp_path):
    """``build()``: another build on the same file."""
    made = []

    def build(url=f"sqlite:///{tmp_path / 'builds.db'}?durability=relaxed", **settings):
        made.append(Onward(url, **settings))
        return made[-1]

    yield build
    for each in made:
        each.close()


@pytest.fixture
def old(build):
    """The build that has enqueued what waits."""
    return build()


def send(user_id: int) -> None:
    raise AssertionError("no handler runs")


def send_for(user_id: int, tenant: str) -> None:
    raise AssertionError("no handler runs")


def _lines(engine):
    """Return all that is in a store.  Redis lists its keys in an order that changes while its tables grow."""
    return sorted(engine.everything().split(b"\n"))


def codes(report):
    return [(problem.code, problem.subject, problem.jobs) for problem in report.problems if problem.blocks]


class TestEveryStore:
    @pytest.mark.promise("S158")
    def test_all_that_waits_is_checked_and_nothing_is_changed(self, engine, build):
        old, new = build(engine.url()), build(engine.url())
        job = old.job(name="send")(send)
        for number in range(1_050):
            job.using(delay="6d" if number == 1_049 else 0).enqueue(number)
        old.enqueue("gone", {"a": 1}, queue="other")
        new.job(name="send")(send_for)
        before, pages = _lines(engine), []

        report = new.check_deploy(progress=pages.append)

        assert _lines(engine) == before
        assert pages == [500, 500, 51]
        assert (report.checked, report.blocked, report.passed) == (1_051, 1_051, False)
        assert codes(report) == [("missing_argument", "send", 1_050), ("unknown", "gone", 1), ("unserved", "other", 1)]
        missing = report.problems[0]
        assert missing.text == "`send(user_id)` was enqueued without `tenant`, which this build requires"
        assert missing.fix.startswith("give the parameter a default,")
        assert missing.fix.endswith("(1,050 jobs, the last due in 5 d)")
        assert len(missing.ids) == 3
        assert missing.arguments == {"user_id": 0}
        assert missing.last_due - missing.next_due > timedelta(days=5)

    def test_a_build_that_can_run_all_of_it_passes(self, engine, build):
        old, new = build(engine.url()), build(engine.url())
        old.job(name="send")(send).enqueue(1)
        new.job(name="post", aliases=["send"])(send)

        report = new.check_deploy()

        assert (report.checked, report.blocked, report.passed, codes(report)) == (1, 0, True, [])

    def test_a_sample_takes_the_oldest_and_the_newest_of_each_name(self, engine, build):
        old, new = build(engine.url()), build(engine.url())
        job = old.job(name="send")(send)
        ids = [job.enqueue(number).id for number in range(9)]
        old.enqueue("gone", {})
        new.job(name="send")(send_for)

        report = new.check_deploy(sample=2)

        assert report.sampled
        assert (report.checked, codes(report)) == (5, [("missing_argument", "send", 4), ("unknown", "gone", 1)])
        assert report.problems[0].ids == (ids[0], ids[1], ids[8])


class TestMending:
    """Each problem, and that doing what its fix says mends it."""

    def check(self, build, define, mend, *, code, broken=None, mended=None):
        """Meet the problem in one build, and pass in another; return the problem."""
        first = build(**(broken or {}))
        define(first)
        problems = first.check_deploy().problems
        assert [(problem.code, problem.blocks) for problem in problems] == [(code, True)]
        second = build(**(mended or {}))
        mend(second)
        assert second.check_deploy().passed
        return problems[0]

    def test_a_name_that_is_gone_is_kept_as_an_alias(self, old, build):
        old.job(name="send")(send).enqueue(1)
        self.check(
            build,
            lambda app: app.job(name="post")(send),
            lambda app: app.job(name="post", aliases=["send"])(send),
            code="unknown",
        )

    def test_a_parameter_that_became_required_gets_a_default(self, old, build):
        def mended(user_id: int, tenant: str = "acme") -> None: ...

        old.job(name="send")(send).enqueue(1)
        self.check(
            build,
            lambda app: app.job(name="send")(send_for),
            lambda app: app.job(name="send")(mended),
            code="missing_argument",
        )

    def test_a_parameter_that_is_gone_is_kept(self, old, build):
        old.job(name="send")(send_for).enqueue(1, "acme")
        problem = self.check(
            build,
            lambda app: app.job(name="send")(send),
            lambda app: app.job(name="send")(send_for),
            code="unknown_argument",
        )
        assert problem.text == "`send(user_id, tenant)` was enqueued with `tenant`, which this build does not take"

    def test_a_type_that_changed_takes_both(self, old, build):
        def broken(user_id: str) -> None: ...

        def mended(user_id: str | int) -> None: ...

        old.job(name="send")(send).enqueue(1)
        problem = self.check(
            build,
            lambda app: app.job(name="send")(broken),
            lambda app: app.job(name="send")(mended),
            code="misfit",
        )
        assert "parameter 'user_id' does not fit" in problem.text

    def test_a_job_that_its_queue_refuses_is_named(self, old, build):
        old.job(name="send")(send).enqueue(1)
        self.check(
            build,
            lambda app: app.job(name="send")(send),
            lambda app: app.job(name="send")(send),
            code="refused",
            broken={"queue_handlers": {"default": ["other"]}},
            mended={"queue_handlers": {"default": ["send"]}},
        )

    def test_a_budget_that_became_smaller_is_raised(self, old, build):
        def fail() -> None:
            raise ValueError

        build().enqueue("fail", {})  # by name: its envelope says nothing about retries
        old.job(name="fail", max_retries=5)(fail)
        for _ in range(3):
            assert old.drain() == 1
            old.retry(old.list()[0].id)
        self.check(
            build,
            lambda app: app.job(name="fail", max_retries=2)(fail),
            lambda app: app.job(name="fail", max_retries=3)(fail),
            code="over_budget",
        )

    def test_a_queue_that_is_not_served_is_said_to_be_or_left_to_others(self, old, build):
        old.job(name="send", queue="mail")(send).enqueue(1)
        new = build()
        new.job(name="send")(send)

        assert codes(new.check_deploy()) == [("unserved", "mail", 1)]
        assert new.check_deploy(queues=["ma*"]).passed
        elsewhere = new.check_deploy(elsewhere=["mail"])
        assert (elsewhere.passed, elsewhere.checked) == (True, 0)

    def test_what_no_worker_writes_is_told(self, old, build, tmp_path):
        job = old.job(name="send")(send).enqueue(1)
        new = build()
        new.job(name="send")(send)
        stored = new.backend.get(job.id)
        runtime, now = new._parts.engine.of_worker().runtime, stored.available_at

        assert trouble_of(stored, runtime, now) is None
        assert trouble_of(msgspec.structs.replace(stored, attempts=-1), runtime, now).code == "damaged"
        assert trouble_of(msgspec.structs.replace(stored, data=stored.data[:-9]), runtime, now).code == "rejected"
        newer = stored.data.replace(b"onward/1", b"onward/2", 1)
        assert trouble_of(msgspec.structs.replace(stored, data=newer), runtime, now).code == "too_new"


def test_dead_jobs_are_checked_on_request(old, build):
    def fail() -> None:
        raise ValueError

    old.job(name="fail", max_retries=0)(fail).enqueue()
    old.drain()
    new = build()

    assert new.check_deploy().checked == 0
    assert codes(new.check_deploy(dead=True)) == [("unknown", "fail", 1)]


def test_what_is_over_in_every_build_is_no_problem(old, build):
    job = old.job(name="send")(send).using(expires="1h").enqueue(1)
    new = build()
    new.job(name="send")(send_for)
    stored = new.backend.get(job.id)
    runtime = new._parts.engine.of_worker().runtime

    assert trouble_of(stored, runtime, stored.available_at) is not None
    assert trouble_of(msgspec.structs.replace(stored, spent="it failed"), runtime, stored.available_at) is None
    assert trouble_of(stored, runtime, stored.expires_at) is None


def test_secrets_of_arguments_are_masked(old, build):
    def pay(card: Secret[str], amount: str) -> None: ...

    def broken(card: str, amount: int) -> None: ...

    old.job(name="pay")(pay).enqueue(Secret("4242-canary"), "much")
    new = build()
    new.job(name="pay")(broken)

    (problem,) = new.check_deploy().problems

    assert problem.arguments == {"card": "***", "amount": "much"}
    assert "canary" not in msgspec.json.encode(problem).decode()


def test_schedules_that_come_and_go_are_told_and_stop_nothing(old, build):
    old.schedule("0 6 * * *", name="nightly")(old.job(name="tidy")(lambda: None))
    old.schedules.tick()
    new = build()
    new.schedule("0 7 * * *", name="morning")(new.job(name="tidy")(lambda: None))

    report = new.check_deploy()

    assert [(each.code, each.subject) for each in report.problems] == [
        ("schedule_gone", "nightly"),
        ("schedule_new", "morning"),
    ]
    assert report.passed


def test_jobs_that_running_workers_do_not_know_are_told(old, build):
    def opened(owner, jobs):
        description = WorkerDescription(queues=("default",), jobs=jobs).encoded()
        old.backend.open_session(Session(owner=owner, lease_for=timedelta(seconds=30), description=description))

    known = build()._parts.producer.registry.known
    opened("a", (*known, "send"))
    opened("b", tuple(known))
    new = build()
    new.job(name="send")(send)

    (notice,) = new.check_deploy().problems

    assert (notice.code, notice.subject, notice.blocks) == ("unknown_to_workers", "send", False)
    assert notice.text == "1 running worker of 2 cannot run 'send' yet"


def test_a_sample_of_nothing_is_refused(old):
    with pytest.raises(OptionError, match="sample must be a number of at least 1, not 0"):
        old.check_deploy(sample=0)


def test_a_broker_alone_has_nothing_to_check(build):
    with pytest.raises(Unsupported):
        build("beanstalk://127.0.0.1:1").check_deploy()


drawn = st.fixed_dictionaries({}, optional=dict.fromkeys("abc", st.sampled_from(["int", "str", "int = 1"])))


@pytest.mark.promise("S157")
@given(
    parameters=st.just({"a": "int", "b": "str"}) | drawn,  # most of the others do not fit
    name=st.sampled_from(["work", "renamed"]),
    aliased=st.booleans(),
    allowed=st.sampled_from([None, None, ["work"], ["renamed"], []]),
    attempts=st.integers(-1, 4),
    max_retries=st.integers(0, 3),
    cut=st.sampled_from([0, 0, 0, 5]),
)
def test_the_check_says_what_a_worker_would_do(parameters, name, aliased, allowed, attempts, max_retries, cut):
    old = Onward("memory://")
    stored = old.backend.get(old.enqueue("work", {"a": 1, "b": "b"}).id)  # its envelope says nothing about retries
    stored = msgspec.structs.replace(stored, attempts=attempts, data=stored.data[: len(stored.data) - cut])
    called = []
    handlers = None if allowed is None else {"default": allowed}
    new = Onward("memory://", queue_handlers=handlers)
    aliases = ["work"] if aliased and name != "work" else []
    new.job(name=name, aliases=aliases, max_retries=max_retries)(_function(parameters, called))
    runtime, now = new._parts.engine.of_worker().runtime, stored.available_at
    lease = Lease(
        envelope=Sealed(stored.id, stored.queue, stored.data),
        token=stored.delivery + 1,
        owner="w",
        expires_at=now,
        claimed_at=now,
        attempts=attempts,
    )

    trouble = trouble_of(stored, runtime, now)

    assert called == []
    ready = prepare(lease, runtime)
    if isinstance(ready, Ready):
        run(ready, runtime)
    assert (trouble is None) == bool(called), trouble


def _function(parameters, called):
    """Make a function with these parameters; those with a default last."""
    words = sorted((f"{name}: {kind}" for name, kind in parameters.items()), key=lambda word: "=" in word)
    names = {"called": called}
    exec(f"def work({', '.join(words)}) -> None:\n    called.append(1)", names)
    return names["work"]


def test_what_waits_for_ever_is_due_at_no_time(old, build):
    def node() -> None: ...

    one, two = old.job(name="one")(node), old.job(name="two")(node)
    old.chain(one.call(), two.call()).enqueue()
    new = build()
    new.job(name="one")(node)

    (problem,) = new.check_deploy().problems

    assert (problem.code, problem.subject, problem.next_due, problem.last_due) == ("unknown", "two", None, None)
    assert new.list(state=State.SCHEDULED)[0].job == "two"
