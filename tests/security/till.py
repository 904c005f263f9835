"""An application whose jobs have a secret, each at another place, and do with it all that a careless handler can do."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypedDict
from urllib.parse import quote, quote_plus

import msgspec
import pydantic

from onward import Discard, JobContext, NoDelay, Onward, Secret
from onward.handlers import TypedHandler

# Quotes, slashes and letters beyond ASCII are written in many ways.  The first six letters are looked for.
CANARY = 'k4n4r1/4242-"é'
SIGNS = ("k4n4r1", base64.b64encode(CANARY.encode()).decode()[:8], CANARY.encode().hex()[:12])
QUEUE = "till"
BUDGET = {"max_retries": 2, "retry": NoDelay(), "queue": QUEUE}


def ways_to_say(secret: str) -> str:
    """A text that quotes it in every way that is in use."""
    encoded = secret.encode()
    return " ".join(
        [
            *(secret, repr(secret), repr(encoded), json.dumps(secret), json.dumps([secret], ensure_ascii=False)),
            *(quote(secret), quote(secret, safe="").lower(), quote_plus(secret), encoded.hex()),
            *(base64.b64encode(encoded).decode(), base64.urlsafe_b64encode(encoded).decode().rstrip("=")),
        ]
    )


def betray(ctx: JobContext, secret: str | bytes) -> None:
    """Tell it everywhere: in progress, in an error with all that belongs to one, at the edge of every limit, in a reason."""
    said = secret.decode() if isinstance(secret, bytes) else secret
    ctx.progress(0.5, ways_to_say(said))
    noted.append(read_note(ctx.id))
    if ctx.attempt == 1:
        error = type(f"Declined_{said}", (ValueError,), {})(ways_to_say(said))
        error.add_note(said)
        raise error from OSError("x" * (1_000 - 6) + said)
    if ctx.attempt == 2:
        raise ValueError("x" * (4_096 - 6) + said)
    raise Discard(ways_to_say(said))


noted: list[object] = []
read_note: Callable[[str], object] = str

Enqueue = Callable[[], str]  # gives the id of the job
PLACES: dict[str, Callable[[Onward], Enqueue]] = {}


def place(name: str) -> Callable[[Callable[[Onward], Enqueue]], Callable[[Onward], Enqueue]]:
    def add(define: Callable[[Onward], Enqueue]) -> Callable[[Onward], Enqueue]:
        PLACES[name] = define
        return define

    return add


def open_till(url: str, **settings: object) -> Onward:
    """The application, without its jobs."""
    keyed = {"drawer": Drawer(), "event": {}, "command": {}}
    return Onward(url, handlers=keyed, queue_handlers={QUEUE: [*keyed, *(_job(name) for name in PLACES)]}, **settings)


def _job(name: str) -> str:
    return name.replace(" ", "_")


# At the top


@place("a parameter")
def a_parameter(jobs):
    @jobs.job(name="a_parameter", **BUDGET)
    def charge(ctx: JobContext, user: int, card: Secret[str]) -> None:
        betray(ctx, card.reveal())

    return lambda: charge.enqueue(7, Secret(CANARY)).id


@place("an optional one")
def an_optional_one(jobs):
    @jobs.job(name="an_optional_one", **BUDGET)
    def charge(ctx: JobContext, *, card: Secret[str] | None = None) -> None:
        betray(ctx, card.reveal())

    return lambda: charge.enqueue(card=Secret(CANARY)).id


@place("bytes")
def in_bytes(jobs):
    @jobs.job(name="bytes", **BUDGET)
    def charge(ctx: JobContext, card: Secret[bytes]) -> None:
        betray(ctx, card.reveal())

    return lambda: charge.enqueue(Secret(CANARY.encode())).id


@place("a default")
def a_default(jobs):
    @jobs.job(name="a_default", **BUDGET)
    def charge(ctx: JobContext, user: int, card: Secret[str] = Secret(CANARY)) -> None:  # noqa: B008
        betray(ctx, card.reveal())

    return lambda: charge.enqueue(7).id


@place("a telling name")
def a_telling_name(jobs):
    @jobs.job(name="a_telling_name", **BUDGET)
    def charge(ctx: JobContext, options: dict) -> None:
        betray(ctx, options["http"][0]["X-Api-Key"])

    return lambda: charge.enqueue({"http": [{"X-Api-Key": CANARY}]}).id


# Below


@dataclass
class Order:
    number: int
    card: Secret[str]


@dataclass
class Gift:
    number: int
    card: Secret[str] = field(default_factory=lambda: Secret(CANARY))


class Renamed(msgspec.Struct, rename="camel"):
    card_number: Secret[str]
    order: int = 7


class InARow(msgspec.Struct, array_like=True):
    order: int
    card: Secret[str]


class Basket(msgspec.Struct):
    orders: dict[str, list[Order]]


class Branch(msgspec.Struct):
    below: list["Branch"] = []
    card: Secret[str] | None = None


class Model(pydantic.BaseModel):
    card: Secret[str] = pydantic.Field(alias="cardNumber")
    order: int = 7


class Typed(TypedDict):
    card: Secret[str]


class Named(NamedTuple):
    order: int
    card: Secret[str]


def _below(name, kind, given, found):
    """A job whose one parameter is of this type."""

    @place(name)
    def define(jobs):
        @jobs.job(name=_job(name), **BUDGET)
        def charge(ctx: JobContext, order: kind) -> None:
            betray(ctx, found(order).reveal())

        return lambda: charge.enqueue(given()).id


_below("a dataclass", Order, lambda: Order(7, Secret(CANARY)), lambda order: order.card)
_below("a default of a dataclass", Gift, lambda: Gift(7), lambda order: order.card)
_below("a struct", Renamed, lambda: Renamed(Secret(CANARY)), lambda order: order.card_number)
_below("a struct that travels as a list", InARow, lambda: InARow(7, Secret(CANARY)), lambda order: order.card)
_below(
    "an object in a list in an object",
    Basket,
    lambda: Basket({"a": [Order(7, Secret(CANARY))]}),
    lambda basket: basket.orders["a"][0].card,
)
_below("a tree", Branch, lambda: Branch([Branch(card=Secret(CANARY))]), lambda branch: branch.below[0].card)
_below("a model", Model, lambda: Model(cardNumber=Secret(CANARY)), lambda order: order.card)
_below("a typed dictionary", Typed, lambda: {"card": Secret(CANARY)}, lambda order: order["card"])
_below("a named tuple", Named, lambda: Named(7, Secret(CANARY)), lambda order: order.card)
_below("a list", list[Secret[str]], lambda: [Secret(CANARY)], lambda cards: cards[0])
_below("an object", dict[str, Secret[str]], lambda: {"a": Secret(CANARY)}, lambda cards: cards["a"])
_below("a tuple", tuple[int, Secret[str]], lambda: (7, Secret(CANARY)), lambda pair: pair[1])
_below("a union", Renamed | int | None, lambda: Renamed(Secret(CANARY)), lambda order: order.card_number)
_below("a secret object", Secret[dict[str, str]], lambda: Secret({"a": CANARY}), lambda it: Secret(it.reveal()["a"]))


# By name


@place("by name")
def by_name(jobs):
    @jobs.job(name="by_name", **BUDGET)
    def charge(ctx: JobContext, order: dict) -> None:
        betray(ctx, order["cards"][0])

    return lambda: jobs.enqueue("by_name", {"order": {"cards": [Secret(CANARY)]}}, **BUDGET).id


@place("by name of another program")
def by_name_elsewhere(jobs):
    """Who enqueues it does not know that it is a secret."""

    @jobs.job(name="by_name_of_another_program", **BUDGET)
    def charge(ctx: JobContext, order: Order) -> None:
        betray(ctx, order.card.reveal())

    def enqueue() -> str:
        with Onward(
            jobs.settings.url,
            store=jobs.settings.store or "",
            signing_keys=jobs.settings.signing_keys,
            encryption=jobs.settings.encryption,
        ) as other:
            payload = {"order": {"number": 7, "card": CANARY}}
            return other.enqueue("by_name_of_another_program", payload, **BUDGET).id

    return enqueue


# By key


class Payment(msgspec.Struct):
    order: Order


class Drawer(TypedHandler[Payment]):
    """Betrays it once more in a hook."""

    payload_type = Payment

    def handle(self, ctx: JobContext, payload: Payment) -> None:
        betray(ctx, payload.order.card.reveal())

    def after_run(self, ctx: JobContext, ran: object) -> None:
        raise RuntimeError(ways_to_say(ctx.payload["order"]["card"]))


def _by_key(jobs, handler, payload):
    builder = jobs.define(handler, payload).queue(QUEUE).max_retries(2).retry(NoDelay())
    return lambda: builder.dispatch().id


@place("a handler with a hook")
def a_handler(jobs):
    return _by_key(jobs, "drawer", {"order": {"number": 7, "card": CANARY}})


@place("an event")
def an_event(jobs):
    @jobs.listen("paid")
    def first(ctx: JobContext, order: Order) -> None:
        betray(ctx, order.card.reveal())

    return _by_key(jobs, "event", {"name": "paid", "data": {"number": 7, "card": CANARY}})


@place("a command")
def a_command(jobs):
    @jobs.command("charge")
    def charge(ctx: JobContext, orders: list[Order]) -> None:
        betray(ctx, orders[0].card.reveal())

    return _by_key(jobs, "command", {"name": "charge", "arguments": {"orders": [{"number": 7, "card": CANARY}]}})
