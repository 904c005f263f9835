"""Where settings come from, seen through `Onward(...)`: defaults < file < environment < arguments."""

import pytest

from onward import Exponential, Fixed, Linear, NoDelay, Onward, OptionError
from onward.backends.memory import MemoryBackend


def test_an_application_without_a_word_lives_in_a_file_in_the_working_directory(tmp_path):
    with Onward() as jobs:

        @jobs.job
        def work(): ...

        handle = work.enqueue()
        jobs.drain()

        assert handle.state() == "completed"
    assert (tmp_path / "onward.db").is_file()


def test_the_environment_names_the_store(monkeypatch):
    monkeypatch.setenv("ONWARD_URL", "memory://")

    with Onward() as jobs:
        assert isinstance(jobs.backend, MemoryBackend)


def test_an_argument_beats_the_environment(monkeypatch):
    monkeypatch.setenv("ONWARD_URL", "sqlite:///elsewhere/never.db")

    with Onward("memory://") as jobs:
        assert isinstance(jobs.backend, MemoryBackend)


def test_the_environment_beats_the_file(monkeypatch, tmp_path):
    (tmp_path / "onward.toml").write_text('url = "memory://"\nmax_crashes = 7\ndefault_max_retries = 4\n')
    monkeypatch.setenv("ONWARD_MAX_CRASHES", "5")

    with Onward() as jobs:
        assert (jobs.settings.max_crashes, jobs.settings.default_max_retries) == (5, 4)


def test_a_project_file_may_hold_the_settings(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.onward]\nurl = "memory://"\nlease_for = "2m"\n')

    with Onward() as jobs:
        assert jobs.settings.lease_for == 120


@pytest.mark.parametrize(
    ("name", "text", "setting", "value"),
    [
        ("ONWARD_NAMESPACE", "shop", "namespace", "shop"),
        ("ONWARD_DEFAULT_MAX_RETRIES", "3", "default_max_retries", 3),
        ("ONWARD_MAX_PAYLOAD", "4096", "max_payload", 4096),
        ("ONWARD_LEASE_FOR", "45", "lease_for", 45),
        ("ONWARD_UNKNOWN_GRACE", "2h", "unknown_grace", 7200),
        ("ONWARD_IDEMPOTENCY_TTL", "7d", "idempotency_ttl", 604_800),
        ("ONWARD_METRICS", "false", "metrics", False),
        ("ONWARD_DROP_ON_DLQ_FAILURE", "yes", "drop_on_dlq_failure", True),
        ("ONWARD_DEAD_LETTER_QUEUE", "failed_jobs", "dead_letter_queue", "failed_jobs"),
    ],
)
def test_every_setting_can_come_from_the_environment(monkeypatch, name, text, setting, value):
    monkeypatch.setenv(name, text)

    with Onward("memory://") as jobs:
        assert getattr(jobs.settings, setting) == value


@pytest.mark.parametrize(
    ("name", "text"), [("ONWARD_MAX_CRASHES", "many"), ("ONWARD_METRICS", "perhaps"), ("ONWARD_LEASE_FOR", "soon")]
)
def test_a_setting_that_cannot_be_read_names_itself(monkeypatch, name, text):
    monkeypatch.setenv(name, text)

    with pytest.raises((OptionError, ValueError), match=rf"(?i){name}|{name.removeprefix('ONWARD_').lower()}"):
        Onward("memory://")


def test_a_setting_from_the_environment_really_is_used(monkeypatch):
    monkeypatch.setenv("ONWARD_DEFAULT_MAX_RETRIES", "2")

    with Onward("sync://") as jobs:

        @jobs.job
        def work():
            raise RuntimeError

        assert work.enqueue().record().attempts == 3


@pytest.mark.parametrize("store", ["sqlite"])
def test_namespaces_in_one_file_know_nothing_of_each_other(open_app):
    shop, blog = open_app(namespace="shop"), open_app(namespace="blog")

    @shop.job
    def work(): ...

    handle = work.enqueue()

    assert blog.get(handle.id) is None
    assert blog.drain() == 0
    assert shop.counts()["available"] == 1


@pytest.mark.parametrize("store", ["memory"])
def test_each_application_in_memory_is_its_own_store(open_app):
    one, other = open_app(), open_app()

    @one.job
    def work(): ...

    handle = work.enqueue()

    assert other.get(handle.id) is None


# How retries are configured


@pytest.mark.promise("S17")
@pytest.mark.parametrize("engine", ["process_once", "worker"])
@pytest.mark.parametrize("said", ["fixed, base=100", {"strategy": "fixed", "base": 100}, Fixed(100)], ids=str)
def test_strategies_may_be_named_wherever_a_policy_is_taken(open_app, clock, eventually, said, engine):
    jobs = open_app(default_retry=said, queue_retry={"slow": "linear, base=200"})

    @jobs.job(max_retries=1)
    def plain():
        raise RuntimeError

    @jobs.job(max_retries=1, queue="slow")
    def on_a_queue():
        raise RuntimeError

    @jobs.job(max_retries=1, queue="slow", retry={"strategy": "fixed", "base": "5m"})
    def with_its_own():
        raise RuntimeError

    handles = [plain.enqueue(), on_a_queue.enqueue(), with_its_own.enqueue()]
    handles.append(with_its_own.using(retry="fixed, base=400").enqueue())
    if engine == "process_once":
        jobs.drain()
    else:
        with jobs.worker():
            eventually(lambda: all(handle.state() == "retryable" for handle in handles))

    waits = [(handle.record().available_at - clock.now()).total_seconds() for handle in handles]
    assert waits == [100, 200, 300, 400]


@pytest.mark.promise("S17")
def test_strategies_are_named_in_a_file_and_in_the_environment(open_app, monkeypatch, tmp_path):
    (tmp_path / "onward.toml").write_text(
        'default_retry = "linear"\n[queue_retry]\nmail = {strategy = "fixed", base = "2m"}\nops = "none"'
    )
    from_file = open_app().settings
    monkeypatch.setenv("ONWARD_DEFAULT_RETRY", "exponential, base=5, max=300, jitter=false")
    from_environment = open_app(queue_retry={"ops": Fixed(9)}).settings

    assert (from_file.default_retry, from_file.queue_retry) == (Linear(), {"mail": Fixed(120.0), "ops": NoDelay()})
    assert from_environment.default_retry == Exponential(base=5, max=300, jitter=None)
    assert from_environment.queue_retry == {"mail": Fixed(120.0), "ops": Fixed(9)}


@pytest.mark.promise("S17")
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"default_retry": "exponentail"}, r"Onward\(\.\.\.\): default_retry: .* did you mean 'exponential'"),
        ({"default_retry": 30}, "default_retry must be a policy"),
        ({"queue_retry": {"mail": "fxed"}}, r"queue_retry\.mail: .* did you mean 'fixed'"),
        ({"queue_retry": {"mail": None}}, r"queue_retry\.mail must be a policy"),
        ({"queue_retry": "fixed"}, "queue_retry must name a policy for each queue"),
    ],
)
def test_a_strategy_that_makes_no_sense_is_refused_at_once(open_app, settings, says):
    with pytest.raises(OptionError, match=says):
        open_app(**settings)


def test_a_strategy_in_the_environment_that_makes_no_sense_is_refused_at_once(open_app, monkeypatch):
    monkeypatch.setenv("ONWARD_DEFAULT_RETRY", "linaer")

    with pytest.raises(OptionError, match=r"the environment: default_retry: .* did you mean 'linear'"):
        open_app()


def test_a_strategy_of_a_job_that_makes_no_sense_is_refused_where_it_is_given(jobs):
    with pytest.raises(OptionError, match=r"retry: .* did you mean 'exponential'"):
        jobs.job(name="work", retry="exponental")(lambda: None)

    @jobs.job
    def work(): ...

    with pytest.raises(OptionError, match=r"retry: .* did you mean 'fixed'"):
        work.using(retry="fixd")


class Mine(Exponential, frozen=True):
    def compute_delay(self, attempt, **_):
        return 77


def test_a_policy_of_the_users_own_decides_although_it_does_not_travel(open_app, clock):
    jobs = open_app(default_retry=Mine())

    @jobs.job(max_retries=1)
    def by_default():
        raise RuntimeError

    @jobs.job(max_retries=1, retry=Mine())
    def by_itself():
        raise RuntimeError

    handles = [by_default.enqueue(), by_itself.enqueue()]
    jobs.drain()

    assert [(handle.record().available_at - clock.now()).total_seconds() for handle in handles] == [77, 77]
    with pytest.raises(OptionError, match="a Mine policy is code and cannot travel"):
        by_default.using(retry=Mine())


@pytest.mark.promise("S17")
def test_each_queue_keeps_its_own_policy_for_one_job(open_app, clock):
    jobs = open_app(default_retry=Fixed(100), queue_retry={"slow": Fixed(200)})

    @jobs.job(max_retries=1)
    def work():
        raise RuntimeError

    handles = [work.enqueue(), work.using(queue="slow").enqueue(), work.enqueue(), work.using(queue="slow").enqueue()]
    jobs.drain("default", "slow")

    waits = [(handle.record().available_at - clock.now()).total_seconds() for handle in handles]
    assert waits == [100, 200, 100, 200]
