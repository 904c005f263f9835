"""Handlers whose payload has a type."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from onward.base.wording import a
from onward.errors import ArgumentError
from onward.job.arguments import read_as
from onward.job.context import JobContext
from onward.job.registry import NotAllowed, Ran
from onward.job.scrubbing import scrubber
from onward.job.secret_places import places_of

__all__ = ["TypedHandler"]

P = TypeVar("P")


class TypedHandler(Generic[P]):
    """A handler of your own, whose payload is a dataclass, a `msgspec.Struct`, a pydantic model or plain data.

    Set the type as ``payload_type`` and write `handle`, plain or ``async``.  A payload that does not fit raises an
    `ArgumentError` where it is enqueued; a worker refuses one that another program enqueued.
    """

    payload_type: Any = Any

    def handle(self, ctx: JobContext, payload: P) -> Any:
        """Run one attempt."""
        raise NotImplementedError

    def before_run(self, ctx: JobContext) -> Any:
        """Prepare a run.  If this raises, the attempt has failed and `handle` is not called."""

    def after_run(self, ctx: JobContext, ran: Ran) -> Any:
        """Clean up after every attempt, failed ones too.  An error here is logged and changes nothing."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The places in the payload that are never shown."""
        return places_of(self.payload_type)

    def check(self, payload: Any) -> None:
        self.read(payload)

    def run(self, ctx: JobContext) -> Any:
        try:
            payload = self.read(ctx.payload)
        except ArgumentError as error:
            raise NotAllowed(f"the payload is not allowed: {error}") from None
        return self.handle(ctx, payload)

    def read(self, payload: Any) -> P:
        """Return the payload as its type, from plain data."""
        try:
            value: P = read_as(self.payload_type, payload)
        except Exception as error:  # noqa: BLE001  a model's own methods may raise anything
            kind = getattr(self.payload_type, "__name__", self.payload_type)
            told = scrubber(msgspec.json.encode(payload), self.secrets)(str(error))
            raise ArgumentError(f"{type(self).__name__}: the payload is not {a(str(kind))}: {told}") from None
        return value

    def decoded(self, payload: Any) -> Any:
        """Return the payload as `handle` gets it, to find its secrets."""
        return self.read(payload)
