"""Celery's canvas on Onward's flows."""

import pytest

from onward import ArgumentError, OptionError
from onward.compat.celery import chain, chord, group, signature


@pytest.fixture
def add(app):
    return app.task(name="add")(lambda x, y=1: x + y)


@pytest.fixture
def total(app):
    return app.task(name="total")(sum)


@pytest.fixture
def fails(app):
    @app.task(name="fails")
    def fails(*_):
        raise ValueError("no")

    return fails


def test_each_part_takes_the_result_of_the_one_before_it(add, total, jobs):
    canvas = {
        "chain": (add.s(1) | add.s(10) | add.s(100), 112),
        "immutable": (chain(add.s(1), add.si(5)), 6),
        "group": (group(add.s(i) for i in range(3)), [1, 2, 3]),
        "chord": (chord(group(add.s(i) for i in range(3)), total.s()), 6),
        "group of chains": (group(add.s(1) | add.s(2), add.s(5)) | total.s(), 10),
        "chain into group": (add.s(1) | group(add.s(1), add.s(2)), [3, 4]),
        "group in group": (group(group(add.s(1), add.s(2)), add.s(9)), [2, 3, 10]),
        "chord of groups": (chord(group(group(add.s(1), add.s(2)), add.s(9)), total.s()), 15),
        "by name": (signature("add", args=(1,)) | signature("add", kwargs={"y": 4}), 6),
    }

    results = {name: (part.apply_async(), expected) for name, (part, expected) in canvas.items()}
    jobs.drain()

    assert {name: result.get() for name, (result, _) in results.items()} == {
        name: expected for name, (_, expected) in results.items()
    }


def test_calls_of_one_task_are_one_node(add, total, jobs):
    result = chord(add.s(i) for i in range(50))(total.s())
    jobs.drain()

    (flow,) = jobs.flows.list()
    assert (flow.nodes, flow.jobs, result.get()) == (2, 51, sum(range(1, 51)))


def test_a_failure_ends_a_chain_and_is_what_its_end_raises(add, fails, jobs):
    result = (add.s(1) | fails.s() | add.s(2)).delay()
    jobs.drain()

    assert (result.state, result.parent.state, result.parent.parent.state) == ("REVOKED", "FAILURE", "SUCCESS")
    with pytest.raises(ValueError, match="no"):
        result.get()


def test_options_stand_with_the_tasks_or_for_all(add, jobs):
    (add.s(1).set(queue="first", priority=3) | add.s(2)).apply_async(queue="rest")

    assert [(record.queue, record.priority) for record in jobs.list()] == [("first", 3), ("rest", 0)]


def test_options_are_set_on_the_signature_itself(add, jobs):
    call = add.s(1)
    call.set(queue="first")
    call.delay()

    assert call.set(priority=3) is call
    assert [record.queue for record in jobs.list()] == ["first"]
    with pytest.raises(OptionError):
        call.set(task_id="x", queue="second")
    assert call.options == {"queue": "first", "priority": 3}


def test_options_of_a_copy_are_its_own(add):
    two = add.s(1) | add.s(2)
    for call in two.clone().parts():
        call.set(queue="first")

    assert [call.options for call in two.parts()] == [{}, {}]


def test_a_request_has_the_arguments_that_the_task_was_called_with(app, add, jobs):
    @app.task(name="told", bind=True)
    def told(self, total, unit="EUR"):
        return [list(self.request.args), self.request.kwargs]

    alone, behind = told.delay(7, unit="USD"), (add.s(1) | told.s("GBP")).delay()
    jobs.drain()

    assert (alone.get(), behind.get()) == ([[7], {"unit": "USD"}], [[2, "GBP"], {}])


def test_secrets_are_masked_behind_the_result_of_another_task(app, add, jobs):
    @app.task(name="pay")
    def pay(total, token, currency="EUR"):
        raise ValueError(f"{token} is not known in {currency}")

    (add.s(1) | pay.s("hunter2")).delay()
    chord([add.s(1), add.s(2)], pay.s("hunter2", "USD")).delay()
    jobs.drain()
    dead = jobs.list(job="pay")

    assert [record.payload["args"] for record in dead] == [[None, "***"], [None, "***", "USD"]]
    assert [record.errors[0].message for record in dead] == ["*** is not known in EUR", "*** is not known in USD"]


@pytest.mark.promise("S164")
def test_what_has_no_meaning_in_a_canvas_names_the_fix(add, jobs):
    two = add.s(1) | add.s(2)

    with pytest.raises(OptionError, match="give it to a task"):
        two.apply_async(countdown=5)
    with pytest.raises(OptionError, match="when='failed'"):
        add.s(1).link_error(add.s(2))
    with pytest.raises(OptionError, match="when='failed'"):  # to give it to a task would be refused, too
        two.apply_async(link_error=add.s(2))
    with pytest.raises(OptionError, match="did you mean 'countdown'"):
        two.apply_async(countdwn=5)
    with pytest.raises(OptionError, match=r"\.apply_async\(queue="):
        two.set(queue="mail")
    with pytest.raises(ArgumentError, match="a task or its name"):
        signature({"task": "add", "args": (1,)})
    with pytest.raises(OptionError, match="unique_key"):
        add.s(1).set(task_id="x")
    with pytest.raises(ArgumentError, match=r"add\.s\(1, 2\)"):
        chain(add, add)
    with pytest.raises(ArgumentError, match="too many"):
        (add.s(1) | add.s(1, 2)).delay()
    with pytest.raises(OptionError, match="there is no task 'ad'"):
        (signature("ad") | add.s(1)).delay()
    assert jobs.list() == []


def test_groups_can_be_empty(total, jobs):
    result = chord(group(), total.s()).apply_async()
    jobs.drain()

    assert (group().apply_async().get(), result.get()) == ([], 0)
