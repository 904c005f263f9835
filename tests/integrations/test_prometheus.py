"""Metrics of a program: as text, and through the registry of prometheus-client."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from onward import NoDelay, Onward
from onward.errors import BackendUnavailable
from onward.integrations import prometheus
from onward.operate.store_metrics import LOOK_EVERY, StoreMetrics
from tests.deploy.prometheus import promtool


@pytest.fixture
def jobs():
    with Onward("memory://") as jobs:
        yield jobs


@pytest.fixture
def work(jobs):
    @jobs.job(queue="mail", max_retries=1, retry=NoDelay())
    def work(n: int) -> None:
        if n % 2:
            raise RuntimeError

    return work


def samples(text):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_text_has_what_was_counted_and_what_the_store_holds(jobs, work):
    work.enqueue_many([(n,) for n in range(10)])
    jobs.drain()
    work.using(delay=60).enqueue(0)
    seen = samples(prometheus.text(jobs))
    labels = (("job", "work"), ("queue", "mail"))

    assert seen["onward_jobs_enqueued_total", *labels] == 11
    assert seen["onward_jobs_succeeded_total", *labels] == 5
    assert seen["onward_jobs_failed_total", *labels] == 10
    assert seen["onward_job_run_seconds_count", ("queue", "mail")] == 15
    assert seen["onward_job_wait_seconds_count", ("queue", "mail")] == 10
    assert seen["onward_queue_jobs", ("queue", "mail"), ("state", "scheduled")] == 1
    assert seen["onward_dead_letters",] == 5
    assert seen["onward_store_up",] == 1


@pytest.mark.promise("S152")
def test_a_registry_has_the_same_as_the_text(jobs, work):
    work.enqueue_many([(n,) for n in range(10)])
    jobs.drain()
    registry = CollectorRegistry()
    registry.register(prometheus.Collector(jobs))
    text = generate_latest(registry).decode()

    assert samples(text) == samples(prometheus.text(jobs))
    assert promtool("check", "metrics", given=text) == (0, "")


def test_a_store_is_looked_at_once_in_15_seconds(jobs, work):
    looks, now = [], [100.0]
    look, jobs.backend.look = jobs.backend.look, lambda asked: looks.append(asked) or look(asked)
    metrics = StoreMetrics(jobs.backend, clock=lambda: now[0])
    for _ in range(5):
        assert metrics.samples()
    assert len(looks) == 1

    now[0] += LOOK_EVERY
    assert metrics.samples()
    assert len(looks) == 2


@pytest.mark.promise("S123")
def test_a_store_that_does_not_answer_is_told_and_raises_nothing(jobs, work, monkeypatch):
    def refuse(_):
        raise BackendUnavailable("it is away")

    monkeypatch.setattr(type(jobs.backend), "look", lambda _, asked: refuse(asked))
    work.enqueue(0)
    seen = samples(prometheus.text(jobs))

    assert seen["onward_store_up",] == 0
    assert seen["onward_jobs_enqueued_total", ("job", "work"), ("queue", "mail")] == 1
    assert not [key for key in seen if key[0] in ("onward_dead_letters", "onward_sessions", "onward_queue_jobs")]


def test_a_registry_that_registers_it_does_not_look_at_the_store(jobs, monkeypatch):
    monkeypatch.setattr(type(jobs.backend), "look", None)

    CollectorRegistry(auto_describe=True).register(prometheus.Collector(jobs))
