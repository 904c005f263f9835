"""Jobs for handlers named by key, put together word by word, and allowed only where an application says so."""

from datetime import timedelta

import pytest

from onward import ArgumentError, Fixed, InvalidName, OptionError

ECHO = ["/bin/echo", "hello; rm -rf /"]


@pytest.fixture
def jobs(open_app):
    return open_app(handlers={"shell": {"allow": ["/bin/echo", "/bin/false"]}}, queue_handlers={"ops": ["shell"]})


def test_a_dispatched_job_runs_its_handler(jobs):
    handle = jobs.define("shell", ECHO).queue("ops").dispatch()

    assert jobs.process_once("ops").status == "acked"
    assert handle.result() == {"exit_code": 0, "stdout": "hello; rm -rf /\n", "stderr": ""}


def test_every_word_is_part_of_the_definition(jobs):
    definition = (
        jobs.define("shell", ECHO)
        .named("say-hello")
        .queue("ops")
        .priority(5)
        .max_retries(2)
        .retry(Fixed(10))
        .timeout("30s")
        .meta({"team": "ops"})
        .single_instance()
        .to_definition()
    )

    assert (definition.name, definition.handler, definition.queue) == ("say-hello", "shell", "ops")
    assert (definition.priority, definition.max_retries, definition.retry) == (5, 2, Fixed(10))
    assert (definition.timeout, definition.meta, definition.single_instance) == (30, {"team": "ops"}, True)
    assert definition.payload == ECHO


def test_a_dispatched_job_carries_every_word(jobs, clock):
    handle = (
        jobs.define("shell", ECHO)
        .named("say-hello")
        .queue("ops")
        .priority(5)
        .max_attempts(3)
        .delay("1h")
        .meta({"team": "ops"})
        .dispatch()
    )

    record = handle.record()
    assert (record.job, record.name, record.queue, record.state) == ("shell", "say-hello", "ops", "scheduled")
    assert (record.priority, record.max_retries, record.meta) == (5, 2, {"team": "ops"})
    assert record.available_at == clock.now() + timedelta(hours=1)
    assert record.payload == ECHO


def test_each_word_makes_a_new_builder(jobs):
    base = jobs.define("shell", ECHO).queue("ops")
    urgent = base.priority(9)

    assert (base.to_definition().priority, urgent.to_definition().priority) == (0, 9)


def test_nothing_is_stored_before_dispatch(jobs):
    jobs.define("shell", ECHO).queue("ops").named("later").to_definition()

    assert sum(jobs.counts().values()) == 0


def test_unique_and_idempotency_keys_can_be_said(jobs):
    unique = jobs.define("shell", ECHO).queue("ops").unique_key("k").idempotency_key("k", ttl="1h")

    assert [unique.dispatch().created, unique.dispatch().created] == [True, False]


def test_a_program_that_fails_is_retried_and_given_up(jobs):
    handle = jobs.define("shell", ["/bin/false"]).queue("ops").max_retries(1).retry(Fixed(0)).dispatch()
    jobs.drain("ops")

    record = jobs.get(handle.id)
    assert (record.state, record.attempts) == ("discarded", 2)
    assert "ended with code 1" in record.errors[-1].message


@pytest.mark.parametrize(
    ("payload", "queue"),
    [(["/bin/cat", "/etc/passwd"], "ops"), (["/bin/echo", "hi"], "mail")],
    ids=["program", "queue"],
)
def test_what_is_not_allowed_is_refused_once_and_for_all(jobs, payload, queue):
    handle = jobs.define("shell", payload).queue(queue).max_retries(5).dispatch()

    assert jobs.process_once(queue).status == "dead-lettered"
    record = jobs.get(handle.id)
    assert (record.state, record.attempts) == ("discarded", 0)
    assert "not allowed" in record.errors[-1].message
    assert (jobs.metrics.count("jobs_refused"), jobs.metrics.count("jobs_failed")) == (1, 0)


def test_a_queue_that_lists_its_handlers_runs_nothing_else(jobs):
    @jobs.job(queue="ops", max_retries=5)
    def work(): ...

    handle = work.enqueue()

    assert jobs.process_once("ops").status == "dead-lettered"
    assert "queue_handlers lists shell" in jobs.get(handle.id).reason


def test_a_payload_the_handler_could_never_run_is_refused_where_it_is_said(jobs):
    with pytest.raises(ArgumentError, match="list of text"):
        jobs.define("shell", "echo hi").queue("ops").dispatch()
    assert sum(jobs.counts().values()) == 0


@pytest.mark.parametrize("name", ["two words", "", "-"])
def test_a_name_for_people_is_checked_too(jobs, name):
    with pytest.raises(InvalidName):
        jobs.define("shell", ECHO).named(name)


def test_two_words_that_disagree_are_refused(jobs):
    with pytest.raises(OptionError):
        jobs.define("shell", ECHO).max_retries(2).max_attempts(2)


def test_a_handler_that_does_not_exist_is_refused_where_it_is_configured(open_app):
    with pytest.raises(OptionError, match="did you mean 'shell'"):
        open_app(handlers={"shel": {}})
