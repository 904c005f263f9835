"""Jobs that do what they can to end the worker that runs them: by what they raise, return, are given and are told.

Each is one failed attempt after the other, or a success that has no result; never the end of a worker.
"""

import asyncio
import contextvars
import enum
import logging
import math
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

from onward import Custom, Discard, Exponential, JobContext, NoDelay, PlusMinus, Retry, RetryPolicy, Snooze
from onward.job.signals import Signal
from onward.telemetry import JobEvent

JOBS: dict[str, "Hostile"] = {}
NEIGHBOURS = ("neighbour", "async_neighbour")
_armed = False  # until all is enqueued: a client reads back what it writes


class OfItsOwnKind(BaseException):
    pass


class Hostile(NamedTuple):
    function: Any
    ends: str
    options: dict[str, Any]
    payload: dict[str, Any]


def hostile(ends="discarded", payload=None, **options):
    """Register a job of this module with the state that it comes to."""

    def register(function):
        JOBS[function.__name__] = Hostile(
            function, ends, {"max_retries": 1, "retry": NoDelay(), **options}, payload or {}
        )
        return function

    return register


def define(jobs, **options):
    """Make jobs of all of them, and of neighbours that they must not harm."""
    for name, each in JOBS.items():
        jobs.job(name=name, **{**each.options, **options})(each.function)

    @jobs.job(**options)
    def neighbour() -> str:
        return "unharmed"

    @jobs.job(**options)
    async def async_neighbour() -> str:
        return "unharmed"

    jobs.on(JobEvent, Subscriber())


def arm(*, armed=True):
    global _armed  # noqa: PLW0603
    _armed = armed


def dies(*_, **__):
    raise OfItsOwnKind("of a class that no handler of errors knows")


broken = property(dies)


class Subscriber:
    """Hears every event and has no name."""

    __getattr__ = __repr__ = __call__ = dies


# ── what they raise ─────────────────────────────────────────────────────────────────────────────────────────────────


class HasNoText(Exception):
    __str__ = __repr__ = dies


class HostileText(str):
    __slots__ = ()
    __getitem__ = __len__ = __contains__ = __iter__ = __format__ = isascii = isprintable = encode = dies


class TextOfItsOwn(Exception):
    def __str__(self):
        return HostileText("a text with methods of its own")


class HasNoAttributes(Exception):
    __traceback__ = __cause__ = __context__ = __suppress_context__ = __dict__ = args = broken


class AnotherClass(Exception):
    __class__ = broken


class NamelessType(type):
    __instancecheck__ = __subclasscheck__ = dies

    def __getattribute__(cls, name):
        return dies() if name in {"__name__", "__qualname__", "__module__"} else super().__getattribute__(name)


class Nameless(Exception, metaclass=NamelessType):
    pass


class CannotBeMade(Exception):
    def __init__(self):
        dies()


class CannotBeCopied(Exception):
    __reduce__ = __reduce_ex__ = __copy__ = __eq__ = __hash__ = dies


class EmptyGroup(ExceptionGroup):
    exceptions = broken


class CarelessSnooze(Snooze):
    delay = broken

    def __init__(self):
        pass


class CarelessDiscard(Discard):
    reason = broken

    def __init__(self):
        pass


class OddSnooze(Snooze):
    def __init__(self, delay):
        self.delay = delay


class OddRetry(Retry):
    def __init__(self, after):
        self.after = after


class OddDiscard(Discard):
    def __init__(self, reason):
        self.reason = reason


RAISED = {
    "has_no_text": HasNoText,
    "text_of_its_own": TextOfItsOwn,
    "has_no_attributes": HasNoAttributes,
    "another_class": AnotherClass,
    "nameless": Nameless,
    "cannot_be_made": CannotBeMade,
    "cannot_be_copied": CannotBeCopied,
    "empty_group": lambda: EmptyGroup("nothing", [ValueError()]),
    "of_its_own_kind": OfItsOwnKind,
    "exit": SystemExit,
    "generator_exit": GeneratorExit,
    "cancelled_error": asyncio.CancelledError,
    "bare_signal": Signal,
    "careless_snooze": CarelessSnooze,
    "careless_discard": CarelessDiscard,
    **{
        f"odd_snooze_{n}": lambda value=value: OddSnooze(value) for n, value in enumerate((math.nan, -1, "soon", 1e300))
    },
    **{f"odd_retry_{n}": lambda value=value: OddRetry(value) for n, value in enumerate((math.inf, None, dies, -1))},
    **{f"odd_discard_{n}": lambda value=value: OddDiscard(value) for n, value in enumerate((HasNoText(), "\ud800", 7))},
}


def _raiser(name, make):
    def raises():
        raise make()

    async def araises():
        raise make()

    raises.__name__, araises.__name__ = f"raises_{name}", f"awaits_{name}"
    hostile()(raises)
    hostile()(araises)


for _name, _make in RAISED.items():
    _raiser(_name, _make)


@hostile(discard_on=Nameless)
def discards_what_cannot_be_asked():
    raise ValueError("plain")


@hostile(retry_on=Nameless)
def retries_what_cannot_be_asked():
    raise ValueError("plain")


@hostile()
def returns_a_careless_signal():
    return CarelessSnooze()


_loader = {"__name__": "generated", "__loader__": type("Loader", (), {"get_source": dies})(), "dies": dies}
exec(compile("def from_nowhere():\n    dies()", "<nowhere>", "exec"), _loader)


@hostile()
def has_no_source():
    _loader["from_nowhere"]()


# ── what they return ────────────────────────────────────────────────────────────────────────────────────────────────


class Model:
    """As pydantic's are, by the shape of its methods."""

    model_dump = dies

    @classmethod
    def model_validate(cls, value):
        return dies() if _armed else cls()

    def __eq__(self, other):
        return isinstance(other, Model)

    __hash__ = None


class Told(Model):
    def model_dump(self, **_):
        return {}


class Lingering:
    __del__ = dies


@hostile("completed")
def returns_a_model():
    return Model()


@hostile("completed")
async def awaits_a_model():
    return Model()


@hostile()
def returns_another_class():
    return type("Other", (), {"__class__": broken})()


@hostile("completed")
def returns_what_lingers():
    return Lingering()


@hostile("completed")
def returns_half_a_character():
    return "\ud800"


@hostile("completed")
def returns_itself():
    itself = []
    itself.append(itself)
    return itself


@hostile()
def returns_a_stubborn_generator():
    def stubborn():
        while True:
            try:
                yield
            except GeneratorExit:
                dies()

    generator = stubborn()
    next(generator)
    return generator


# ── what they are given ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Order:
    number: int = 1

    def __post_init__(self):
        if _armed:
            dies()


class Colour(enum.Enum):
    RED = "red"

    @classmethod
    def _missing_(cls, value):
        return dies() if _armed else cls.RED


@hostile(payload={"order": {"number": 1}})
def takes_an_order(order: Order): ...


@hostile(payload={"order": {"number": 1}})
async def awaits_an_order(order: Order): ...


@hostile("scheduled", payload={"colour": "blue"})  # parked: a validator's ValueError means that it does not fit
def takes_a_colour(colour: Colour): ...


@hostile(payload={"model": {}})
def takes_a_model(model: Told): ...


# ── how they are retried ────────────────────────────────────────────────────────────────────────────────────────────


class Policy(RetryPolicy, frozen=True):
    """The user's own.  Its cap of nothing lets the default policy, which decides instead, decide on nothing."""

    answer: Any = None

    def compute_delay(self, attempt, **_):
        return self.answer if self.answer is not dies else dies()


class Planless(RetryPolicy, frozen=True):
    plan = dies


class Senseless(RetryPolicy, frozen=True):
    def plan(self, *_, **__):
        return "a delay"


class Speechless(RetryPolicy, frozen=True):
    """Does not say how long to wait."""


class Falsy(Exponential, frozen=True):
    __bool__ = __len__ = __eq__ = dies

    def compute_delay(self, attempt, **_):
        return super().compute_delay(attempt) * 0


class Unjust(PlusMinus, frozen=True):
    spread = dies


ANSWERS = {
    "dies": dies,
    "nan": math.nan,
    "negative": -1,
    "text": "5",
    "nothing": None,
    "flag": True,
    "infinite": math.inf,
}
POLICIES = {
    **{name: Policy(answer=answer, max=0) for name, answer in ANSWERS.items()},
    "planless": Planless(max=0),
    "senseless": Senseless(max=0),
    "speechless": Speechless(max=0),
    "falsy": Falsy(),
    "unjust": Exponential(jitter=Unjust(), max=0),
    "custom": Custom(dies, max=0),
    "a_lambda": Custom(lambda: 1, max=0),
}


def _retried(name, policy, ends="discarded"):
    def fails():
        raise ValueError("plain")

    fails.__name__ = f"retried_by_{name}"
    hostile(ends, retry=policy)(fails)


for _name, _policy in POLICIES.items():
    _retried(_name, _policy)
_retried("a_huge_number", Policy(answer=10**400), ends="retryable")


# ── what they do to what runs them ──────────────────────────────────────────────────────────────────────────────────

_variable = contextvars.ContextVar("_variable", default="unset")


class HostileHandler(logging.Handler):
    emit = dies


@hostile()
def breaks_the_log():
    logger = logging.getLogger("onward")
    logger.addHandler(HostileHandler())
    raise ValueError("plain")


@hostile()
def breaks_a_filter():
    logger = logging.getLogger("onward.job")
    logger.addFilter(dies)
    raise ValueError("plain")


@hostile()
def traces():
    sys.settrace(dies)
    raise ValueError("plain")


@hostile()
def replaces_itself():
    replaces_itself.__code__ = (lambda wants, more: None).__code__
    raise ValueError("plain")


@hostile("completed")
def sets_a_variable(ctx: JobContext):
    assert _variable.get() == "unset"
    _variable.set("left behind")


@hostile("completed")
async def awaits_a_variable(ctx: JobContext):
    assert _variable.get() == "unset"
    _variable.set("left behind")


@hostile("completed")
async def stops_the_loop():
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)


@hostile("completed")
async def leaves_an_exit_behind():
    asyncio.get_running_loop().call_soon(sys.exit, 3)
    await asyncio.sleep(0.05)


@hostile("completed")
async def leaves_a_task_behind():
    _kept.append(asyncio.ensure_future(_exits()))


@hostile("completed")
async def makes_no_tasks():
    asyncio.get_running_loop().set_task_factory(dies)


@hostile("completed")
async def hears_no_errors():
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(dies)
    loop.call_soon(dies)
    await asyncio.sleep(0.01)


@hostile()
async def cancels_everything():
    for task in asyncio.all_tasks():
        task.cancel()
    await asyncio.sleep(0)


_kept = []


async def _exits():
    sys.exit(3)
