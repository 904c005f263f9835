"""Scrubbing texts about a job: a scrubber removes the secrets of the job's arguments, and what looks like a credential.

Every failure, reason and note passes through a scrubber before it is stored, logged or shown.  It knows the arguments as
they travelled, by name and by place, and as the handler gets them, with its defaults.  Texts are scrubbed before they are
cut: half a secret would not be found.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from onward.base.credentials import LONGEST, MASK, SHORTEST, looked_at, without_credentials
from onward.job.secrets import Secret, parts_of, secret_values, secrets_in

__all__ = ["Scrub", "scrubber", "scrubber_of_url"]

Scrub = Callable[[str], str]

# The end of a telling name, in JSON; or an escape, which may hide one.
_MAY_TELL = (
    *('password"', 'passwd"', 'passphrase"', 'secret"', 'token"', 'authorization"', 'apikey"', 'privatekey"'),
    "\\",
)


def scrubber(
    payload: bytes | msgspec.Raw,
    secrets: Collection[str] = (),
    decoded: Callable[[], Any] | None = None,
) -> Scrub:
    """Return the function that scrubs texts about a job.  ``secrets`` are places in its payload.

    ``decoded`` returns the arguments as the handler gets them.
    """
    values = list(_at_places(payload, secrets))
    if decoded is not None:
        with suppress(Exception):  # a payload that cannot be read has no secrets to scrub
            values += [secret.reveal() for secret in secrets_in(decoded())]
    return _without(_forms(values)) if values else without_credentials


def scrubber_of_url(forms: Iterable[str]) -> Scrub:
    """Return the function that scrubs texts about a store."""
    return _without(forms)


def _at_places(payload: bytes | msgspec.Raw, secrets: Collection[str]) -> Iterator[Any]:
    if not secrets and not _may_tell(bytes(payload)):
        return
    with suppress(ValueError, RecursionError):  # no handler could be called with it either
        yield from secret_values(msgspec.json.decode(payload), secrets)


def _may_tell(payload: bytes) -> bool:
    """Return whether a payload may have a telling name: searching its text takes a tenth of the time of walking it."""
    if not payload.isascii():
        return True
    text = payload.translate(None, b"_- ").lower().decode()
    return any([end in text for end in _MAY_TELL])  # noqa: C419  half the time


def _without(forms: Iterable[str]) -> Scrub:
    texts = sorted((form for form in set(forms) if len(form) >= SHORTEST), key=len, reverse=True)
    edge = max([LONGEST, *map(len, texts)])

    def scrub(text: str) -> str:
        for secret in texts:
            text = text.replace(secret, MASK)
        return without_credentials(text)

    return lambda text: looked_at(text, scrub, edge)


def _forms(values: Iterable[Any]) -> Iterator[str]:
    """Yield the forms in which a text may contain these values."""
    for value in values:
        match value:
            case None | bool():
                continue
            case Secret():
                yield from _forms([value.reveal()])
            case str() if len(value) >= SHORTEST:
                yield from _forms_of_text(value)
            case str():
                continue
            case bytes() | bytearray() | memoryview():
                yield from _forms_of_bytes(bytes(value))
                with suppress(UnicodeDecodeError):
                    yield from _forms_of_text(bytes(value).decode())
            case _ if (parts := parts_of(value)) is not None:
                yield from _forms(parts.values() if isinstance(parts, Mapping) else parts)
            case _:
                yield from (str(value), repr(value))
                with suppress(Exception):  # an instant, for example, travels in another form
                    yield msgspec.json.encode(value).decode().strip('"')


def _forms_of_text(text: str) -> Iterator[str]:
    yield text
    yield repr(text)[1:-1]  # as an error quotes it
    for ascii_only in (True, False):
        yield json.dumps(text, ensure_ascii=ascii_only)[1:-1]
    with suppress(UnicodeEncodeError):
        for quoted in (quote(text, safe=""), quote(text), quote_plus(text)):
            yield quoted
            yield re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), quoted)
        yield from _forms_of_bytes(text.encode())


def _forms_of_bytes(data: bytes) -> Iterator[str]:
    if len(data) < SHORTEST:
        return
    yield repr(data)[2:-1]
    yield from (data.hex(), data.hex().upper())
    for encoded in (b64encode(data), urlsafe_b64encode(data)):
        yield encoded.decode()
        yield encoded.decode().rstrip("=")
