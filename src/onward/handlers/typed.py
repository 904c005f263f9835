"""Handlers whose payload has a type."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, get_type_hints

from onward.arguments import read_as
from onward.context import JobContext
from onward.errors import ArgumentError
from onward.masking import names_secret
from onward.registry import NotAllowed, Ran
from onward.wording import a

__all__ = ["TypedHandler", "secret_fields"]

P = TypeVar("P")


class TypedHandler(Generic[P]):
    """A handler of your own, whose payload is a dataclass, a `msgspec.Struct`, a pydantic model or plain data.

    Say the type as ``payload_type`` and write `handle`, plain or ``async``.  A payload that does not fit is an
    `ArgumentError` where it is enqueued; one that another program enqueued is refused where it would run.
    """

    payload_type: Any = Any

    def handle(self, ctx: JobContext, payload: P) -> Any:
        """One attempt."""
        raise NotImplementedError

    def before_run(self, ctx: JobContext) -> Any:
        """Called before `handle`.  If it raises, the attempt has failed and `handle` is not called."""

    def after_run(self, ctx: JobContext, ran: Ran) -> Any:
        """Called after every attempt, failed ones too.  What it raises is logged and changes nothing."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The fields of the payload that are shown to nobody."""
        return secret_fields(self.payload_type)

    def check(self, payload: Any) -> None:
        self.read(payload)

    def run(self, ctx: JobContext) -> Any:
        try:
            payload = self.read(ctx.payload)
        except ArgumentError as error:
            raise NotAllowed(f"it is not allowed: {error}") from None
        return self.handle(ctx, payload)

    def read(self, payload: Any) -> P:
        """The payload as its type, from plain data."""
        try:
            value: P = read_as(self.payload_type, payload)
        except Exception as error:  # noqa: BLE001  a model's own methods may raise anything
            kind = getattr(self.payload_type, "__name__", self.payload_type)
            raise ArgumentError(f"{type(self).__name__}: the payload is not {a(str(kind))}: {error}") from None
        return value


def secret_fields(kind: Any) -> tuple[str, ...]:
    """Those that are annotated with `Secret[...]`."""
    try:
        hints = get_type_hints(kind)
    except Exception:  # noqa: BLE001  it is no class, or an annotation in quotes is any expression
        return ()
    return tuple(name for name, hint in hints.items() if names_secret(hint))
