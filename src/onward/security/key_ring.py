"""The keys that sign and verify jobs, and the places they may come from.

A ring has one key that signs and any number that verify.  The id of a revoked key stays on it, so that the refusal of a job
can name the key.  In the text form the first key signs::

    ONWARD_SIGNING_KEYS=2026-11:<secret>,2026-05:<secret>,2025-11:revoked

A file holds the same text, or what ``onward keys`` writes.  Onward shows secrets nowhere: not by ``repr``, not in errors,
not in a pickle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NoReturn, Self

import msgspec

from onward.base.lazy import hmac, secrets
from onward.base.logs import get_logger
from onward.base.ownership import key_problem
from onward.errors import OptionError

__all__ = ["MODES", "Key", "KeyRing", "KeySource", "KeyState", "Mode"]

logger = get_logger("onward")

KeyState = Literal["signs", "verifies", "revoked"]

Mode = Literal["off", "warn", "require"]  # what a worker does about jobs that it cannot verify
MODES: tuple[Mode, ...] = ("off", "warn", "require")

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHORTEST = 32  # characters of a secret: enough even if half of them can be guessed
_REVOKED = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A secret with a name.  A revoked one has only its name."""

    id: str
    state: KeyState
    secret: bytes = field(default=b"", repr=False)
    created_at: datetime | None = None

    @classmethod
    def new(cls, key_id: str | None = None, *, state: KeyState = "signs", now: datetime | None = None) -> Key:
        """Make a key with 256 random bits."""
        now = now or datetime.now(UTC)
        name = f"k{now:%Y%m%d}-{secrets.token_hex(2)}" if key_id is None else _checked_id(key_id, "the new key")
        secret = secrets.token_urlsafe(32).encode()
        return cls(id=name, state=state, secret=secret, created_at=now.replace(microsecond=0))

    @property
    def fingerprint(self) -> str:
        """A short hash by which people compare secrets.  It reveals nothing else of them."""
        return "" if self.state == _REVOKED else hmac.digest(self.secret, b"onward key fingerprint", "sha256")[:4].hex()


class _Entry(msgspec.Struct, kw_only=True, omit_defaults=True):
    id: str
    state: KeyState
    secret: str = ""
    created_at: datetime | None = None


class _File(msgspec.Struct, kw_only=True):
    keys: list[_Entry]


class KeyRing:
    """Keys, the newest first: one signs, the active verify, the revoked do neither."""

    __slots__ = ("keys", "path")

    def __init__(self, keys: Sequence[Key], *, path: Path | None = None) -> None:
        self.keys: tuple[Key, ...] = tuple(keys)
        self.path: Path | None = path  # of the file it was read from
        ids = [key.id for key in self.keys]
        for key_id in ids:
            if ids.count(key_id) > 1:
                raise OptionError(f"the key {key_id} is on the ring twice: give the new one another id")
        if [key.state for key in self.keys].count("signs") != 1:
            raise OptionError(
                "a ring of signing keys needs one key that signs, and no more: `onward keys new` makes one"
            )

    @classmethod
    def of(cls, source: KeySource, where: str) -> KeyRing:
        """Make a ring of a ring, its text, a mapping of ids to secrets with the one that signs first, or a file."""
        match source:
            case KeyRing():
                return source
            case Path():
                return cls.read(source, where)
            case str():
                return cls.parse(source, where)
            case Mapping():
                return cls._of_pairs(list(source.items()), where)
            case _:  # without the value: it may be a secret
                raise OptionError(f"{where} must be text such as `id:secret,id:secret`, a mapping, a path or a KeyRing")

    @classmethod
    def parse(cls, text: str, where: str = "signing_keys", *, path: Path | None = None) -> KeyRing:
        """Make a ring from its text."""
        pairs = []
        for number, entry in enumerate(filter(None, re.split(r"[,\s]+", text)), start=1):
            key_id, colon, secret = entry.partition(":")
            if not colon:
                raise OptionError(f"{where}: entry {number} is not `id:secret`; `onward keys new` prints one that is")
            pairs.append((key_id, secret))
        return cls._of_pairs(pairs, where, path=path)

    @classmethod
    def read(cls, path: Path, where: str = "signing_keys") -> KeyRing:
        """Read a ring from a file: the text form, or what `onward keys` wrote."""
        try:
            _refuse_open_to_others(path, where)
            content = path.read_bytes()
        except OSError as error:
            raise OptionError(f"{where}: the key file {path} cannot be read: {error.strerror}") from None
        place = f"{where}: {path}"
        if not content.lstrip().startswith(b"{"):
            return cls.parse(_decoded(content, place), place, path=path)
        try:
            entries = msgspec.json.decode(content, type=_File).keys
        except (msgspec.DecodeError, UnicodeDecodeError):  # without the error's text: it may quote a secret
            raise OptionError(f"{place} is not a key file: `onward keys new --file` writes one") from None
        keys = [
            Key(
                id=_checked_id(each.id, place),
                state=each.state,
                secret=b"" if each.state == _REVOKED else _checked_secret(each.secret, each.id, place),
                created_at=each.created_at,
            )
            for each in entries
        ]
        return cls(keys, path=path)

    @classmethod
    def _of_pairs(cls, pairs: Sequence[tuple[Any, Any]], where: str, *, path: Path | None = None) -> KeyRing:
        keys: list[Key] = []
        for key_id, secret in pairs:
            name = _checked_id(key_id, where)
            if secret == _REVOKED:
                keys.append(Key(id=name, state="revoked"))
                continue
            state: KeyState = "verifies" if any(key.state == "signs" for key in keys) else "signs"
            keys.append(Key(id=name, state=state, secret=_checked_secret(secret, name, where)))
        if not any(key.state == "signs" for key in keys):
            raise OptionError(f"{where} names no key that can sign: `onward keys new` makes one")
        return cls(keys, path=path)

    @property
    def signing(self) -> Key:
        """The key that signs."""
        return next(key for key in self.keys if key.state == "signs")

    @property
    def active(self) -> tuple[Key, ...]:
        """The keys whose signatures count."""
        return tuple(key for key in self.keys if key.state != _REVOKED)

    @property
    def states(self) -> dict[str, str]:
        """The ids of the keys with their states, to be shown."""
        return {key.id: key.state for key in self.keys}

    def adding(self, key: Key) -> KeyRing:
        """Return the ring with a new key that only verifies: processes without it would still refuse its signatures."""
        return KeyRing([replace(key, state="verifies"), *self.keys], path=self.path)

    def promoting(self, key_id: str | None = None) -> KeyRing:
        """Return the ring with another key that signs: the newest, or the named one."""
        waiting = [key.id for key in self.keys if key.state == "verifies"]
        if key_id is not None and key_id not in waiting:
            raise OptionError(f"{key_id!r:.80} is not a key that verifies: {', '.join(waiting) or 'there is none'}")
        newer = [key.id for key in self.keys[: self.keys.index(self.signing)] if key.state == "verifies"]
        if key_id is None and not newer:
            raise OptionError(f"no key is newer than {self.signing.id}, which signs: `onward keys rotate` adds one")
        changed: dict[str, KeyState] = {self.signing.id: "verifies", key_id or newer[0]: "signs"}
        return KeyRing([replace(key, state=changed.get(key.id, key.state)) for key in self.keys], path=self.path)

    def revoking(self, key_id: str) -> KeyRing:
        """Return the ring without the secret of one key: workers refuse every job that it signed."""
        if key_id not in self.states:
            raise OptionError(f"there is no key {key_id!r:.80} on the ring: it has {', '.join(self.states)}")
        if key_id == self.signing.id:
            raise OptionError(
                f"{key_id} signs: let another sign first, with `onward keys rotate` and `onward keys rotate --promote`"
            )
        gone = Key(id=key_id, state="revoked")
        return KeyRing(
            [replace(gone, created_at=key.created_at) if key.id == key_id else key for key in self.keys], path=self.path
        )

    def to_file(self) -> bytes:
        """Return the contents of a key file, with the secrets."""
        entries = [
            _Entry(id=key.id, state=key.state, secret=key.secret.decode(), created_at=key.created_at)
            for key in self.keys
        ]
        return msgspec.json.format(msgspec.json.encode(_File(keys=entries)), indent=2) + b"\n"

    def to_text(self) -> str:
        """Return the value of the environment variable, with the secrets: the key that signs comes first."""
        ordered = [self.signing, *(key for key in self.keys if key is not self.signing)]
        return ",".join(f"{key.id}:{_REVOKED if key.state == _REVOKED else key.secret.decode()}" for key in ordered)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyRing) and self.keys == other.keys

    def __hash__(self) -> int:
        return hash(tuple(self.states.items()))

    def __repr__(self) -> str:
        return f"<KeyRing {', '.join(f'{key_id} {state}' for key_id, state in self.states.items())}>"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key ring cannot be pickled: give the other process the keys themselves")


KeySource = KeyRing | Mapping[str, str] | Path | str


def _checked_id(key_id: Any, where: str) -> str:
    if not isinstance(key_id, str) or _ID.fullmatch(key_id) is None:
        raise OptionError(
            f"{where}: a key's id has letters, digits, '.', '_' and '-', at most 64, and does not start with a sign"
        )
    return key_id


def _refuse_open_to_others(path: Path, where: str) -> None:
    """Raise for a file of keys that other users may read, and so sign with, or write."""
    found = key_problem(path)
    if found is None:
        return
    problem, can_be_helped = found
    if can_be_helped:
        raise OptionError(f"{where}: other users have access to the key file {path}: {problem}")
    if str(path) not in _warned:
        _warned.add(str(path))
        logger.warning("other users have access to the key file %s: %s", path, problem)


_warned: set[str] = set()


def _checked_secret(secret: Any, key_id: str, where: str) -> bytes:
    if not isinstance(secret, str) or len(secret) < _SHORTEST:
        raise OptionError(
            f"{where}: the secret of {key_id} is shorter than {_SHORTEST} characters: `onward keys new` makes a good one"
        )
    if not secret.isascii() or not secret.isprintable() or set(secret) & set(", :"):
        raise OptionError(
            f"{where}: the secret of {key_id} may have printable ASCII characters, but no ',' ':' or blank"
        )
    return secret.encode()


def _decoded(content: bytes, where: str) -> str:
    try:
        return content.decode("ascii")
    except UnicodeDecodeError:
        raise OptionError(f"{where} is not a key file: `onward keys new --file` writes one") from None
