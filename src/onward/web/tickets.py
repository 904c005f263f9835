"""Tickets: a bulk act that was previewed, signed, so that what was shown is what is done.

A ticket holds who looked, the act, the filter, the newest job that was meant and until when it may be used.  It is signed
with a key of the dashboard's, so that no process has to remember it; each of several processes behind one address knows it
if they have the same key.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable
from hashlib import blake2b

import msgspec

from onward.operate.acts import Act
from onward.operate.finding import Until
from onward.web.failures import Refused

__all__ = ["LASTS", "Ticket", "Tickets"]

LASTS = 300  # seconds


class Ticket(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A bulk act that a person has seen."""

    who: str
    act: Act
    filter: str
    until: Until
    count: int
    expires: int


class Tickets:
    """Signs tickets, and reads them."""

    def __init__(self, key: bytes, clock: Callable[[], float]) -> None:
        self._key = blake2b(key, digest_size=32, person=b"onward tickets").digest()
        self._clock = clock

    def sign(self, who: str, act: Act, text: str, until: Until, count: int) -> tuple[str, int]:
        """Return a ticket as text, and when it expires."""
        expires = int(self._clock()) + LASTS
        ticket = Ticket(who=who, act=act, filter=text, until=until, count=count, expires=expires)
        data = msgspec.json.encode(ticket)
        return base64.urlsafe_b64encode(self._signature(data) + data).decode(), expires

    def read(self, text: str, who: str) -> Ticket:
        """Return the ticket of a person, or refuse it."""
        try:
            data = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            data = b""
        signature, data = data[:16], data[16:]
        if not hmac.compare_digest(signature, self._signature(data)):
            raise Refused(403, "bad_ticket", "this is no ticket of a preview", field="ticket", fix="preview it again")
        ticket = msgspec.json.decode(data, type=Ticket)
        if ticket.who != who:
            raise Refused(403, "bad_ticket", "this preview was made by another person", fix="preview it again")
        if ticket.expires <= self._clock():
            raise Refused(409, "ticket_expired", "this preview is older than five minutes", fix="preview it again")
        return ticket

    def _signature(self, data: bytes) -> bytes:
        return blake2b(data, digest_size=16, key=self._key).digest()
