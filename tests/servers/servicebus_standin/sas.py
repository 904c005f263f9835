"""Shared access signatures: who holds the key may speak for what it signed, until it expires."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from dataclasses import dataclass
from urllib.parse import parse_qs, quote_plus

from tests.servers.servicebus_standin.errors import Unauthorized
from tests.servers.servicebus_standin.namespace import entity_path

__all__ = ["Keys"]

_PREFIX = "SharedAccessSignature "


@dataclass(frozen=True, kw_only=True)
class Keys:
    """What the namespace accepts: one named key, and the bearer tokens that a test made up."""

    name: str
    key: str
    bearer_tokens: frozenset[str] = frozenset()

    def check(self, token: str) -> str:
        """Say which path a token is good for; an empty one is the whole namespace.

        The expiry is read on the host's clock, not on the one that a test moves: the client signs with the host's.
        """
        if token in self.bearer_tokens:
            return ""
        if not token.startswith(_PREFIX):
            raise Unauthorized("InvalidToken: neither a shared access signature nor a bearer token of this namespace.")
        fields = {name: values[0] for name, values in parse_qs(token.removeprefix(_PREFIX)).items()}
        resource, signature, expiry, name = (fields.get(each, "") for each in ("sr", "sig", "se", "skn"))
        if name not in {self.name, quote_plus(self.name)}:  # the SDK quotes it twice
            raise Unauthorized(f"InvalidSignature: there is no key {name!r}.")
        if not hmac.compare_digest(signature, self._sign(resource, expiry)):
            raise Unauthorized("InvalidSignature: The token has an invalid signature.")
        if not expiry.isdecimal() or int(expiry) <= time.time():
            raise Unauthorized("ExpiredToken: The token is expired.")
        return entity_path(resource)

    def _sign(self, resource: str, expiry: str) -> str:
        signed = f"{quote_plus(resource)}\n{expiry}".encode()
        return base64.b64encode(hmac.new(self.key.encode(), signed, hashlib.sha256).digest()).decode()
