"""Masking what looks like a credential in a text: the password of a URL, a token, a private key.

Every text that is logged, kept or shown goes through `without_credentials`, whatever it is about: drivers, libraries and
handlers quote URLs.  The secrets of one job's arguments are known exactly: `onward.job.scrubbing` masks them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import unquote

__all__ = ["LONGEST", "MASK", "SHORTEST", "looked_at", "secrets_of_url", "shown_url", "unquoted", "without_credentials"]

MASK = "***"
SHORTEST = 4  # characters: a shorter secret would mask half of a text and protect nothing
LONGEST = 512  # characters of a credential that is found by its shape, so that no text takes long
_LOOKED_AT = 32_768  # characters of a text: Onward keeps less of any

# A text without any of these needs no search, which costs fifty times as much.
_SIGNS = (
    *("://", "assword=", "ASSWORD=", "asswd=", "pwd=", "AccessKey=", "accesskey=", "AccessSignature=", "AccountKey="),
    *("oken=", "pi_key=", "pikey=", "ecret=", "hrase=", "sig=", "ature="),
    *("eyJ", "earer ", "asic ", "AKIA", "ASIA", "_live_", "_test_", "ghp_", "gho_", "ghs_", "PRIVATE KEY"),
)
_SHAPES = re.compile(
    # A password may hold anything but white space; a port alone is none.
    r"(?P<before>\b[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s/:@]{0,255}:)(?!\d{1,5}(?:[/?#,\s]|\Z))\S{1,512}(?=@)"
    r"|(?P<named>(?i:password|passwd|\bpwd|sharedaccesskey|sharedaccesssignature|accountkey|access_token|api_?key)="
    r"|[?&;][\w-]{0,40}(?i:token|secret|passphrase|sig|signature)=)(?:'[^']{0,512}'|\"[^\"]{0,512}\"|[^\s;&'\"]+)"
    r"|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"
    r"|\b(?P<scheme>[Bb]earer|[Bb]asic)\s+[\w.~+/=-]{8,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\b(?:sk|rk|pk)_(?:live|test)_\w{8,}"
    r"|\bgh[pos]_\w{20,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_TELLING = re.compile(r"password|passwd|secret|token|passphrase|key\Z", re.IGNORECASE)
_PARTS = re.compile(r"[@/:?#&,;\[\]]")


def without_credentials(text: str) -> str:
    """Mask the credentials of a text.

    >>> without_credentials("postgresql://ann:hun@ter/2@db/shop?sslpassword=x")
    'postgresql://ann:***@db/shop?sslpassword=***'
    >>> without_credentials("http://example.org:8080/a@b")
    'http://example.org:8080/a@b'
    """
    if len(text) > _LOOKED_AT:
        return looked_at(text, _shapeless, LONGEST)
    return _shapeless(text)


def looked_at(text: str, clean: Callable[[str], str], longest: int) -> str:
    """Return the beginning of a long text, cleaned; without its end, where half a secret may be that no pattern finds."""
    if len(text) <= _LOOKED_AT:
        return clean(text)
    return clean(text[: _LOOKED_AT + longest])[:-longest] + "…"


def secrets_of_url(url: str) -> list[str]:
    """Return the secret parts of a store's URL in the forms in which an error may quote them, the longest first.

    A URL whose password is not quoted as it should be is taken apart at the wrong places, so every piece counts.

    >>> secrets_of_url("redis+sentinel://:hunter2%40@a,b/m?sentinel_password=sesame")
    ['hunter2%40', 'hunter2@', 'hunter2', 'sesame']
    """
    found = {form for text in _secret_parts(url) for form in (text, unquote(text), *_PARTS.split(unquote(text)))}
    return sorted((form for form in found if len(form) >= SHORTEST), key=lambda form: (-len(form), form))


def shown_url(url: str) -> str:
    """Mask the password of a store's URL: whatever it holds, it ends at the last `@`.

    >>> shown_url("mysql://ann:hunter 2@db/shop"), shown_url("sqlite:////srv/a:b@c.db")
    ('mysql://ann:***@db/shop', 'sqlite:////srv/a:b@c.db')
    >>> shown_url("postgresql://db:5432/shop?application_name=a@b")
    'postgresql://db:5432/shop?application_name=a@b'
    """
    scheme, slashes, rest = url.partition("://")
    login, at, place = rest.rpartition("@")
    user, colon, _ = login.partition(":")
    if at and colon and "/" not in user and ("@" in re.split("[/?#]", rest, maxsplit=1)[0] or unquoted(url)):
        url = f"{scheme}{slashes}{user}:{MASK}@{place}"
    return without_credentials(url)


def unquoted(url: str) -> str | None:
    """Return the character in a URL's password that ends it too soon, because it is not quoted.

    >>> (
    ...     unquoted("redis://ann:hun/ter@cache/0"),
    ...     unquoted("redis://ann:hun%2Fter@cache/0"),
    ...     unquoted("mysql://db:3306/a@b"),
    ... )
    ('/', None, None)
    """
    _, _, rest = url.partition("://")
    authority, end, _ = re.split("([/?#])", f"{rest}/", maxsplit=1)
    _, colon, port = authority.partition(":")
    return end if colon and "@" in rest and "@" not in authority and not port.isdigit() else None


def _secret_parts(url: str) -> Iterator[str]:
    _, _, rest = url.partition("://")
    login, at, _ = rest.rpartition("@")
    if at:
        yield login.partition(":")[2]
    for pair in re.split("[?&;]", rest):  # of a query, or of a connection string
        name, _, value = pair.partition("=")
        if _TELLING.search(name):
            yield value


def _shapeless(text: str) -> str:
    return _SHAPES.sub(_without, text) if any([sign in text for sign in _SIGNS]) else text  # noqa: C419  half the time


def _without(found: re.Match[str]) -> str:
    if before := found["before"] or found["named"]:
        return before + MASK
    return f"{found['scheme']} {MASK}" if found["scheme"] else MASK
