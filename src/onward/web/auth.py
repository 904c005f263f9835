"""Who asks.  `auth` is any function from a request to a `User`, or None; `Token` and `ProxyHeader` are two of them."""

from __future__ import annotations

import hmac
import ipaddress
import os
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from onward.base.durations import Duration, seconds
from onward.base.names import queue_pattern, serves
from onward.errors import OptionError
from onward.web.failures import Refused
from onward.web.request import WebRequest
from onward.web.routes import ROLES, Role

__all__ = ["Auth", "DjangoStaff", "ProxyHeader", "Token", "User"]

VARIABLE = "ONWARD_WEB_TOKEN"
SHORTEST = 16  # characters of a token
_WRONG = 5  # tries with wrong tokens from one address, after which it has one try a second
_WITHIN = 60.0  # seconds
_MOST_ADDRESSES = 10_000
_MAKE = "python -c 'import secrets; print(secrets.token_urlsafe(32))'"


@dataclass(frozen=True, slots=True)
class User:
    """A person or a program that looks at the dashboard."""

    name: str
    role: Role = "viewer"
    queues: Sequence[str] | None = None  # the only queues that it sees, names and patterns; None: all of them

    def __post_init__(self) -> None:
        if (
            not isinstance(self.name, str)
            or not self.name.strip()
            or not self.name.isprintable()
            or len(self.name) > 200
        ):
            raise OptionError(f"the name of a user is printable text of 1 to 200 characters, not {self.name!r:.60}")
        if self.role not in ROLES:
            raise OptionError(f"there is no role {self.role!r:.40}: it is one of {', '.join(ROLES)}")
        if self.queues is not None:
            named = [self.queues] if isinstance(self.queues, str) else list(self.queues)
            object.__setattr__(self, "queues", tuple(map(queue_pattern, named)))

    def may(self, role: Role) -> bool:
        """Return whether it has this role, or one that allows more."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def sees(self, queue: str) -> bool:
        return self.queues is None or serves(self.queues, queue)


Auth = Callable[[WebRequest], User | None]


class Token:
    """Lets in who has a token: in the header ``Authorization: Bearer …``, or in a cookie that `login` gave for it.

    ``Token()`` takes the token from ONWARD_WEB_TOKEN and lets its bearer do everything; ``Token({"…": User("ann")})`` has
    several.  A cookie is signed with a key that is derived from the token: to change the token ends all of its sessions.
    """

    def __init__(
        self,
        tokens: str | Mapping[str, User] | None = None,
        *,
        lasts: Duration = "12h",
        clock: Callable[[], float] = time.time,
    ) -> None:
        given = os.environ.get(VARIABLE, "") if tokens is None else tokens
        if not given:
            raise OptionError(f"there is no token: give Token('…'), or set {VARIABLE}; `{_MAKE}` makes one")
        users = {given: User("token", "admin")} if isinstance(given, str) else dict(given)
        for token in users:
            if not isinstance(token, str) or len(token) < SHORTEST or not token.isascii() or not token.isprintable():
                raise OptionError(f"a token has at least {SHORTEST} printable characters: `{_MAKE}` makes one")
        self._lasts = seconds(lasts, "lasts")
        self._clock = clock
        self._users = {_digest(token.encode(), b"name")[:8]: (token, user) for token, user in users.items()}
        self.cookie = f"onward_{_digest(','.join(sorted(self._users)).encode(), b'cookie')[:8]}"
        self.key = ",".join(sorted(users)).encode()  # a secret that all processes with these tokens have
        self._wrong: dict[str, deque[float]] = defaultdict(deque)

    def __call__(self, request: WebRequest) -> User | None:
        if (given := request.bearer) is not None:
            return self.user_of(given, request.peer)
        value = next((value for name, value in request.cookies if name == self.cookie), None)
        return None if value is None else self._of_cookie(value)

    def user_of(self, given: str, peer: str) -> User | None:
        """Return whose token this is.  After five wrong ones in a minute an address has one try a second."""
        now = self._clock()
        tries = self._wrong.get(peer, deque())
        while tries and tries[0] < now - _WITHIN:
            tries.popleft()
        if len(tries) >= _WRONG and now - tries[-1] < 1:
            raise Refused(
                429, "too_many_tries", "too many wrong tokens: wait a second", headers={"Retry-After": "1"}, login=True
            )
        found = None
        for token, user in self._users.values():  # all of them: how long it takes tells nothing
            if hmac.compare_digest(token.encode(), given.encode("utf-8", "surrogatepass")):
                found = user
        if found is None:
            if len(self._wrong) >= _MOST_ADDRESSES:
                self._wrong.clear()
            self._wrong[peer].append(now)
        elif peer in self._wrong:
            del self._wrong[peer]
        return found

    def cookie_for(self, given: str, request: WebRequest) -> str:
        """Return the header that sets the cookie of a token that was right."""
        name = _digest(given.encode(), b"name")[:8]
        expires = int(self._clock() + self._lasts)
        value = f"{name}.{expires}.{self._signature(name, given, expires)}"
        return self._header(value, int(self._lasts), request)

    def no_cookie(self, request: WebRequest) -> str:
        """Return the header that removes the cookie."""
        return self._header("", 0, request)

    def _header(self, value: str, lasts: int, request: WebRequest) -> str:
        secure = "; Secure" if request.scheme == "https" else ""
        path = f"{request.mount}/"
        return f"{self.cookie}={value}; Path={path}; Max-Age={lasts}; HttpOnly; SameSite=Strict{secure}"

    def _of_cookie(self, value: str) -> User | None:
        name, _, rest = value.partition(".")
        expires, _, signature = rest.partition(".")
        token, user = self._users.get(name, ("", None))
        if user is None or not (expires.isascii() and expires.isdigit()) or len(expires) > 12:
            return None
        is_right = hmac.compare_digest(self._signature(name, token, int(expires)).encode(), signature.encode())
        return user if is_right and int(expires) > self._clock() else None

    def _signature(self, name: str, token: str, expires: int) -> str:
        return _digest(f"{name}.{expires}".encode(), b"cookie:" + token.encode())


class ProxyHeader:
    """Believes a proxy in front that has signed people in: the name is in a header, if the connection is from the proxy.

    ``ProxyHeader("X-Forwarded-User", trusted=["10.0.0.0/8"], operators={"ann"}, admins={"bob"})``: all others look only.
    """

    def __init__(
        self,
        header: str,
        *,
        trusted: Collection[str],
        operators: Collection[str] = (),
        admins: Collection[str] = (),
        queues: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        if not trusted or isinstance(trusted, str):
            raise OptionError("trusted names the networks of the proxy: ProxyHeader(…, trusted=['10.0.0.0/8'])")
        try:
            self._trusted = [ipaddress.ip_network(each, strict=False) for each in trusted]
        except ValueError as error:
            raise OptionError(f"trusted: {error}: write networks, such as '10.0.0.0/8' or '127.0.0.1'") from None
        self._header = header.lower()
        self._operators = frozenset(operators)
        self._admins = frozenset(admins)
        self._queues = dict(queues or {})

    def __call__(self, request: WebRequest) -> User | None:
        name = request.header(self._header).strip()
        if not name or not self._is_trusted(request.peer):
            return None
        role: Role = "admin" if name in self._admins else "operator" if name in self._operators else "viewer"
        try:
            return User(name, role, self._queues.get(name))
        except OptionError:
            return None

    def _is_trusted(self, peer: str) -> bool:
        try:
            address = ipaddress.ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any(each in network for each in (address, mapped) if each is not None for network in self._trusted)


class DjangoStaff:
    """Lets in the staff of a Django project: superusers as admins, other staff with ``role``."""

    def __init__(self, role: Role = "operator") -> None:
        self._role = role

    def __call__(self, request: WebRequest) -> User | None:
        user: Any = getattr(request.native, "user", None)
        if user is None or not getattr(user, "is_active", False) or not getattr(user, "is_staff", False):
            return None
        return User(str(user.get_username()), "admin" if user.is_superuser else self._role)


def _digest(text: bytes, purpose: bytes) -> str:
    key = blake2b(purpose, digest_size=32, person=b"onward web").digest()
    return blake2b(text, digest_size=16, key=key).hexdigest()
