"""Where settings come from, seen through `Onward(...)`: defaults < file < environment < arguments."""

import pytest

from onward import Onward, OptionError
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
