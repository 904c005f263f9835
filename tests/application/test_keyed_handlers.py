"""Handlers named by key, in an application: own ones with typed payloads and hooks, events, commands, functions."""

import dataclasses
import logging
from datetime import date
from pathlib import Path

import msgspec
import pydantic
import pytest

from onward import ArgumentError, Discard, Fixed, JobContext, Onward, OptionError, Secret, Snooze, State
from onward.errors import DefinitionError
from onward.handlers import TypedHandler


@dataclasses.dataclass
class Picture:
    path: str
    width: int = 100
    taken: date | None = None


class Struct(msgspec.Struct):
    path: str
    width: int = 100
    taken: date | None = None


class Model(pydantic.BaseModel):
    path: str
    width: int = pydantic.Field(default=100, gt=0)
    taken: date | None = None


class Resize(TypedHandler):
    """Notes what it is told to do."""

    def __init__(self, payload_type=Picture):
        self.payload_type = payload_type
        self.notes = []

    def before_run(self, ctx):
        self.notes.append("before")

    def handle(self, ctx, payload):
        self.notes.append(payload)
        return payload.width

    def after_run(self, ctx, ran):
        self.notes.append(ran)


@pytest.fixture
def store():
    """What a handler is given does not depend on the store: even in memory a payload travels as bytes."""
    return "memory"


@pytest.fixture
def open_with(open_app):
    """An application whose queue `ops` allows these handlers."""
    return lambda **handlers: open_app(handlers=handlers, queue_handlers={"ops": list(handlers)})


def dispatch(jobs, key, payload=None, **words):
    builder = jobs.define(key, payload).queue("ops")
    for word, value in words.items():
        builder = getattr(builder, word)(value)
    handle = builder.dispatch()
    jobs.drain("ops")
    return handle.record()


# Typed payloads


@pytest.mark.parametrize("kind", [Picture, Struct, Model])
def test_a_payload_arrives_as_its_type(open_with, kind):
    resize = Resize(kind)
    jobs = open_with(resize=resize)

    record = dispatch(jobs, "resize", kind(path="a.jpg", width=5, taken=date(2030, 1, 2)))
    dispatch(jobs, "resize", {"path": "b.jpg"})

    assert (record.state, record.result) == (State.COMPLETED, 5)
    assert [note for note in resize.notes if isinstance(note, kind)] == [
        kind(path="a.jpg", width=5, taken=date(2030, 1, 2)),
        kind(path="b.jpg"),
    ]


@pytest.mark.promise("F58")
@pytest.mark.parametrize("kind", [Picture, Struct, Model])
@pytest.mark.parametrize("payload", [{}, {"path": 5}, {"path": "a", "width": "wide"}, "a.jpg", None, [1]], ids=repr)
def test_a_payload_that_does_not_fit_is_refused_where_it_is_said(open_with, kind, payload):
    jobs = open_with(resize=Resize(kind))

    with pytest.raises(ArgumentError, match=f"Resize: the payload is not a {kind.__name__}: "):
        dispatch(jobs, "resize", payload)
    assert sum(jobs.counts().values()) == 0


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.make_dataclass("Other", [("more", int)]),
        msgspec.defstruct("Other", [("more", int)]),
        pydantic.create_model("Other", more=(int, ...)),
    ],
    ids=["dataclass", "msgspec", "pydantic"],
)
def test_a_payload_that_another_program_said_is_refused_where_it_would_run(open_with, other):
    resize = Resize(Picture)
    jobs = open_with(resize=resize)
    handle = jobs.enqueue("resize", {"path": "a"}, queue="ops", max_retries=5)
    resize.payload_type = other

    assert jobs.process_once("ops").status == "dead-lettered"
    assert handle.record().attempts == 0
    assert "is not allowed: Resize: the payload is not an Other: " in handle.record().reason
    assert "more" in handle.record().reason


@pytest.mark.parametrize("handler", [object(), 5, None, "resize", {"path": "a"}], ids=lambda it: type(it).__name__)
def test_what_is_no_handler_is_refused(open_with, handler):
    with pytest.raises(OptionError, match="handler 'resize'"):
        open_with(resize=handler)


@dataclasses.dataclass
class Payment:
    order: int
    card: Secret[str]


class Charge(TypedHandler):
    payload_type = Payment

    def handle(self, ctx, payload):
        raise ValueError(f"{payload.card.reveal()} was declined")


def test_what_is_secret_by_its_type_is_never_shown(open_with):
    jobs = open_with(charge=Charge(), event={}, command={})

    @jobs.listen("order.paid")
    def book(payment: Payment):
        raise KeyError(payment.card.reveal())

    @jobs.command("refund")
    def refund(card: Secret[str]):
        raise OSError(card.reveal())

    card = Secret("4242-4242")
    for key, payload in (
        ("charge", Payment(7, card)),
        ("event", {"name": "order.paid", "data": Payment(7, card)}),
        ("command", {"name": "refund", "arguments": {"card": card}}),
    ):
        record = dispatch(jobs, key, payload)
        assert "***" in str(record.payload)
        assert "***" in record.errors[-1].message
        assert "4242" not in f"{record}{record.payload}{record.errors}"


# Hooks


def test_hooks_are_called_around_a_run(open_with):
    resize = Resize()

    dispatch(open_with(resize=resize), "resize", Picture("a"))

    assert resize.notes == ["before", Picture("a"), (100, None)]
    assert resize.notes[-1].succeeded


def test_a_before_run_that_fails_fails_the_attempt(open_with):
    class Refusing(Resize):
        def before_run(self, ctx):
            self.notes.append(ctx.attempt)
            raise OSError("the disk is not there")

    resize = Refusing()

    record = dispatch(open_with(resize=resize), "resize", Picture("a"), max_retries=1, retry=Fixed(0))

    assert (record.state, record.attempts) == (State.DISCARDED, 2)
    assert [error.message for error in record.errors] == ["the disk is not there"] * 2
    assert [note if isinstance(note, int) else str(note.error) for note in resize.notes] == [
        1,
        "the disk is not there",
        2,
        "the disk is not there",
    ]


@pytest.mark.parametrize("error", [ValueError, SystemExit, Discard, TimeoutError])
def test_an_after_run_that_fails_changes_nothing_and_is_logged(open_with, caplog, error):
    class Careless(Resize):
        def after_run(self, ctx, ran):
            raise error("afterwards")

    with caplog.at_level(logging.ERROR, "onward"):
        record = dispatch(open_with(resize=Careless()), "resize", Picture("a", 7), max_retries=3)

    assert (record.state, record.result, record.attempts) == (State.COMPLETED, 7, 1)
    assert "after_run of handler 'resize' failed; the outcome of its run stands" in caplog.text


def test_after_a_failure_after_run_is_told_of_it_and_cannot_undo_it(open_with):
    class Failing(Resize):
        def handle(self, ctx, payload):
            raise KeyError("colour")

        def after_run(self, ctx, ran):
            super().after_run(ctx, ran)
            raise ValueError("afterwards")

    resize = Failing()
    record = dispatch(open_with(resize=resize), "resize", Picture("a"))

    assert record.errors[-1].kind == "KeyError"
    assert isinstance(resize.notes[-1].error, KeyError)
    assert not resize.notes[-1].succeeded


def test_a_handler_and_its_hooks_may_be_async(open_with):
    class Async(Resize):
        async def before_run(self, ctx):
            self.notes.append("before")

        async def handle(self, ctx, payload):
            return payload.width

    resize = Async()

    assert dispatch(open_with(resize=resize), "resize", Picture("a", 9)).result == 9
    assert resize.notes == ["before", (9, None)]


def test_async_hooks_of_a_plain_handler_are_refused(open_with):
    class Mixed(Resize):
        async def after_run(self, ctx, ran): ...

    with pytest.raises(DefinitionError, match="make all of them async, or none"):
        open_with(resize=Mixed())


# Events


@pytest.fixture
def events(open_with):
    return open_with(event={})


def test_everybody_who_listens_is_told(events):
    heard = []

    @events.listen("order.paid")
    def receipt(order: Picture) -> str:
        heard.append(order)
        return "sent"

    @events.listen("order.paid")
    def stock(ctx: JobContext, order: dict) -> None:
        heard.append((ctx.queue, order["width"]))

    @events.listen("order.paid")
    def bell() -> None:
        heard.append("ring")

    @events.listen("order.lost")
    def silent(order: dict) -> None:
        heard.append("wrong")

    record = dispatch(events, "event", {"name": "order.paid", "data": Picture("a", 3)})

    assert heard == [Picture("a", 3), ("ops", 3), "ring"]
    assert record.result == {"receipt": "sent", "stock": None, "bell": None}


def test_the_failure_of_each_listener_is_visible_and_the_others_are_told_all_the_same(events):
    heard = []

    @events.listen("order.paid")
    def receipt():
        raise OSError("no\nmail")

    @events.listen("order.paid")
    def stock():
        heard.append("stock")

    @events.listen("order.paid")
    def ledger():
        raise KeyError("account")

    record = dispatch(events, "event", {"name": "order.paid"})

    assert heard == ["stock"]
    (error,) = record.errors
    assert error.kind == "onward.handlers.event.ListenersFailed"
    assert (
        "2 of 3 listeners of 'order.paid' failed: receipt: OSError: no\\nmail; ledger: KeyError: 'account'"
        in error.message
    )
    assert all(text in error.traceback for text in ("in receipt", "in ledger"))


def test_the_only_listener_may_say_what_a_job_may_say(events):
    @events.listen("order.paid")
    def later():
        raise Snooze(60)

    assert dispatch(events, "event", {"name": "order.paid"}).state is State.SCHEDULED


def test_when_the_job_is_to_stop_the_others_are_not_called(events):
    heard = []

    @events.listen("order.paid")
    def first(ctx: JobContext):
        ctx.ask_to_stop()
        raise ValueError("interrupted")

    @events.listen("order.paid")
    def second():
        heard.append("second")

    assert dispatch(events, "event", {"name": "order.paid"}).errors[-1].kind == "onward.handlers.time_left.Stopped"
    assert heard == []


def test_an_event_without_listeners_is_refused(events):
    @events.listen("order.paid")
    def receipt(): ...

    record = dispatch(events, "event", {"name": "order.pait"}, max_retries=5)

    assert (record.state, record.attempts) == (State.DISCARDED, 0)
    assert "event 'order.pait' is not allowed: it has no listener here: did you mean 'order.paid'?" in record.reason


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        ({"data": 1}, "missing required field `name`"),
        ("order.paid", "Expected `object`"),
        ({"name": "order.paid", "dat": 1}, "unknown field `dat`"),
        ({"name": "order.paid", "data": {"path": 5}}, "listener 'receipt': .*Expected `str`, got `int`"),
    ],
)
def test_an_event_that_does_not_fit_is_refused_where_it_is_said(events, payload, complaint):
    @events.listen("order.paid")
    def receipt(order: Picture): ...

    with pytest.raises(ArgumentError, match=complaint):
        dispatch(events, "event", payload)


def test_a_listener_that_could_not_be_called_is_refused(events):
    async def asynchronous(order): ...

    def greedy(order, customer): ...

    def twice(order): ...

    events.listen("order.paid")(twice)
    for function, complaint in ((asynchronous, "async"), (greedy, "takes 2 parameters"), (twice, "already registered")):
        with pytest.raises(DefinitionError, match=complaint):
            events.listen("order.paid")(function)


@pytest.mark.parametrize("word", ["listen", "command"])
def test_a_handler_that_is_off_accepts_no_job(jobs, word):
    with pytest.raises(OptionError, match="handler is off: turn it on with"):
        getattr(jobs, word)("order.paid")


# Commands


@pytest.fixture
def commands(open_with):
    return open_with(command={})


def test_a_registered_function_is_called_by_its_name(commands):
    @commands.command("shelf.rebuild")
    def rebuild(ctx: JobContext, shelf: int, *, deep: bool = False) -> str:
        return f"{ctx.queue} {shelf} {deep}"

    payload = {"name": "shelf.rebuild", "arguments": {"shelf": 3, "deep": True}}

    assert dispatch(commands, "command", payload).result == "ops 3 True"


def test_a_name_alone_is_enough(commands):
    commands.command("tidy")(lambda: "tidied")

    assert dispatch(commands, "command", "tidy").result == "tidied"


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        ({}, "missing required field `name`"),
        ({"name": "rebuild"}, "missing required field `shelf`"),
        ({"name": "rebuild", "arguments": {"shelf": "3"}}, "Expected `int`, got `str`"),
        ({"name": "rebuild", "arguments": {"shelf": 3, "x": 1}}, "unknown field `x`"),
        ({"name": "rebuild", "argv": ["--app", "evil:app"]}, "unknown field `argv`"),
        ("rebuild", "missing required field `shelf`"),
    ],
)
def test_a_command_that_could_not_be_called_is_refused_where_it_is_said(commands, payload, complaint):
    @commands.command("rebuild")
    def rebuild(shelf: int) -> None: ...

    with pytest.raises(ArgumentError, match=complaint):
        dispatch(commands, "command", payload)


@pytest.mark.parametrize("name", ["os.system", "builtins:exec", "prune", "rebild", "rebuild; prune"])
def test_a_command_that_was_not_registered_is_refused(commands, name):
    commands.command("rebuild")(lambda: None)

    record = dispatch(commands, "command", name, max_retries=5)

    assert (record.state, record.attempts) == (State.DISCARDED, 0)
    assert "is not allowed: it is not registered here" in record.reason


def test_a_command_is_there_once_and_plain(commands):
    commands.command("tidy")(lambda: None)

    async def later(): ...

    with pytest.raises(DefinitionError, match="already registered"):
        commands.command("tidy")(lambda: None)
    with pytest.raises(DefinitionError, match=r"@jobs\.job"):
        commands.command("later")(later)


@pytest.fixture
def on_a_file(tmp_path, monkeypatch):
    """An application on a store that other processes see; the clock is the real one, which they have too."""
    monkeypatch.chdir(tmp_path)

    def on_a_file(**options):
        return Onward("sqlite:///jobs.db", handlers={"command": options}, queue_handlers={"ops": ["command"]})

    return on_a_file


def test_lines_of_the_onward_command_run_on_the_application_s_own_store(on_a_file):
    lines = {"stop-mail": ["queue", "pause", "mail"], "broken": ["queue", "explode"]}
    with on_a_file(allow=lines) as jobs:
        done = dispatch(jobs, "command", "stop-mail")
        broken = dispatch(jobs, "command", "broken")

        assert (done.state, done.result["exit_code"]) == (State.COMPLETED, 0)
        assert [queue.name for queue in jobs.queues() if queue.paused] == ["mail"]
        assert (broken.state, "onward queue explode ended with code 2" in broken.errors[-1].message) == (
            State.DISCARDED,
            True,
        )
        with pytest.raises(ArgumentError, match="takes no arguments"):
            dispatch(jobs, "command", {"name": "stop-mail", "arguments": {"queue": "vip"}})


def test_a_store_in_memory_has_no_lines_of_the_onward_command():
    with pytest.raises(OptionError, match="sees no store in memory"):
        Onward("memory://", handlers={"command": {"allow": {"nightly": ["prune"]}}})


@pytest.mark.parametrize("words", ["prune", [], [5], [None]])
def test_a_line_is_a_list_of_words(on_a_file, words):
    with pytest.raises(OptionError, match="is a list of words"):
        on_a_file(allow={"nightly": words})


# Functions


@pytest.fixture(params=["memory://", "sync://"])
def inline(request):
    with Onward(request.param, handlers={"callable": {}}, queue_handlers={"ops": ["callable"]}) as jobs:
        yield jobs


def test_a_function_runs_where_it_was_made(inline):
    seen = []

    record = dispatch(inline, "callable", lambda: seen.append("it") or 42)

    assert (record.state, record.result, seen) == (State.COMPLETED, 42, ["it"])


def test_a_function_is_kept_for_its_retries_and_no_longer(inline):
    runs = []

    def sometimes():
        runs.append(1)
        if len(runs) < 3:
            raise OSError("not yet")
        return len(runs)

    record = dispatch(inline, "callable", sometimes, max_retries=5, retry=Fixed(0))

    assert (record.state, record.result) == (State.COMPLETED, 3)
    assert inline.client.letters.registry.find("callable").handler._functions == {}


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        (5, "takes a function"),
        ("os.system", "takes a function"),
        (None, "takes a function"),
        (lambda x: x, "must need no arguments"),
        (Resize().before_run, "must need no arguments"),
    ],
    ids=["number", "text", "nothing", "argument", "method"],
)
def test_what_is_no_function_without_arguments_is_refused(inline, payload, complaint):
    with pytest.raises(ArgumentError, match=complaint):
        dispatch(inline, "callable", payload)


def test_an_async_function_is_refused(inline):
    async def later(): ...

    with pytest.raises(ArgumentError, match=r"@jobs\.job"):
        dispatch(inline, "callable", later)


def test_a_number_that_stands_for_no_function_is_refused(inline):
    with pytest.raises(ArgumentError, match="dispatch a function"):
        inline.enqueue("callable", {"number": 1}, queue="ops")


def test_elsewhere_functions_are_refused_with_what_to_do(tmp_path):
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with pytest.raises(OptionError, match=r"use memory:// or sync://, or make it a job with @jobs\.job"):
        Onward(url, handlers={"callable": {}})
    with Onward(url) as jobs, pytest.raises(ArgumentError, match="a function cannot travel: make it a job"):
        jobs.define("callable", lambda: None).dispatch()


# All of them


@pytest.mark.promise("S39")
@pytest.mark.parametrize("key", ["shell", "url", "event", "command", "resize"])
def test_no_handler_runs_on_a_queue_that_does_not_name_it(open_app, key):
    options = {
        "shell": {"allow": ["/bin/echo"]},
        "url": {"hosts": ["*"]},
        "event": {},
        "command": {},
        "resize": Resize(),
    }
    payloads = {
        "shell": ["/bin/echo", "hi"],
        "url": {"url": "https://example.org/"},
        "event": {"name": "order.paid"},
        "command": "tidy",
        "resize": {"path": "a"},
    }
    others = [each for each in options if each != key]
    jobs = open_app(handlers=options, queue_handlers={"listed": others})
    for queue in ("listed", "default"):
        handle = jobs.define(key, payloads[key]).queue(queue).max_retries(5).dispatch()
        assert jobs.process_once(queue).status == "dead-lettered"
        assert f"{key!r} is not allowed on queue {queue!r}" in handle.record().reason
    assert jobs.metrics.count("jobs_refused") == 2


@pytest.mark.parametrize("end", ["cancelled", "too late"])
def test_a_worker_ends_a_program_whose_job_is_cancelled_or_too_late(tmp_path, eventually, end):
    pid = tmp_path / "pid"
    program = ["/bin/sh", "-c", f"echo $$ > {pid}.new; mv {pid}.new {pid}; sleep 100"]
    handlers = {"shell": {"allow": ["/bin/sh"]}}
    with Onward("memory://", handlers=handlers, queue_handlers={"ops": ["shell"]}) as jobs, jobs.worker(queues=["ops"]):
        handle = jobs.define("shell", program).queue("ops").timeout(60 if end == "cancelled" else 1).dispatch()
        eventually(pid.exists if end == "cancelled" else lambda: handle.record().is_finished, within=60)
        if end == "cancelled":
            handle.cancel()
        record = eventually(lambda: record if (record := handle.record()).is_finished else None, within=60)

    if pid.exists():
        assert not Path(f"/proc/{pid.read_text().strip()}").exists()
    assert record.state is (State.CANCELLED if end == "cancelled" else State.DISCARDED)
    assert end == "cancelled" or "time" in record.errors[-1].message


def test_a_queue_that_allows_a_job_says_nothing_of_another_queue(open_app):
    jobs = open_app(queue_handlers={"ops": ["others"]})

    @jobs.job
    def send(): ...

    handles = [send.using(queue=queue).enqueue() for queue in ("default", "ops", "default", "ops")]
    jobs.drain("default", "ops")

    assert [handle.state() for handle in handles] == ["completed", "discarded"] * 2
