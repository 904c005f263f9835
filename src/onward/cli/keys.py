"""``onward keys``: making, changing and retiring the keys that sign jobs.  No store is needed for that."""

from __future__ import annotations

import os
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import Any

from onward import config
from onward.base.lazy import secrets
from onward.cli import output
from onward.cli.application import given, load
from onward.cli.command import Command, Group, argument
from onward.cli.exits import CommandError, Exit
from onward.cli.table import Column
from onward.errors import OptionError
from onward.security.key_ring import Key, KeyRing

__all__ = ["GROUP"]


def new(args: Namespace) -> int:
    """Make a key: print it, or write it to a new file."""
    try:
        key = Key.new(args.id)
    except OptionError as error:
        raise CommandError(str(error), Exit.USAGE) from error
    if args.file is not None:
        ring = KeyRing([key], path=args.file)
        _create(args.file, ring)
        return _tell(args, ring)
    text = f"{key.id}:{key.secret.decode()}"
    if args.json:
        output.json_line({"id": key.id, "key": text, "fingerprint": key.fingerprint})
    else:
        output.write(text)
        output.say(args, "store it like a password, and give it to producers and workers as ONWARD_SIGNING_KEYS")
    return Exit.OK


def list_keys(args: Namespace) -> int:
    """Print every key, without its secret."""
    return _tell(args, _ring(args))


def rotate(args: Namespace) -> int:
    """Add a key that verifies, or let it sign."""
    ring = _ring(args)
    path = _file_of(ring)
    try:
        changed = ring.promoting(args.id) if args.promote else ring.adding(Key.new(args.id))
    except OptionError as error:
        raise CommandError(str(error), Exit.USAGE) from error
    _replace(path, changed)
    if args.promote:
        output.say(args, f"{changed.signing.id} signs from now on, wherever this file is read")
    else:
        output.say(
            args, "once every program that verifies has read this file, within seconds: `onward keys rotate --promote`"
        )
    return _tell(args, changed)


def revoke(args: Namespace) -> int:
    """Remove a key's secret, and keep its id as that of a revoked one."""
    ring = _ring(args)
    path = _file_of(ring)
    try:
        changed = ring.revoking(args.id)
    except OptionError as error:
        raise CommandError(str(error), Exit.NOTHING if args.id not in ring.states else Exit.USAGE) from error
    _replace(path, changed)
    output.say(args, f"workers that read this file discard jobs signed with {args.id} from now on")
    return _tell(args, changed)


def _ring(args: Namespace) -> KeyRing:
    """Read the keys of the named file, or those that an application would have."""
    try:
        if args.file is not None:
            return KeyRing.read(args.file, "--file")
        ring = config.explain(given(args))["signing_keys"].value if args.app is None else _of_application(args)
    except OptionError as error:
        raise CommandError(str(error), Exit.CONFIG) from error
    if ring is None:
        raise CommandError(
            "no keys are set here: name their file with --file, or set ONWARD_SIGNING_KEYS or ONWARD_SIGNING_KEYS_FILE",
            Exit.NOTHING,
        )
    assert isinstance(ring, KeyRing)
    return ring


def _of_application(args: Namespace) -> KeyRing | None:
    with load(args.app, given(args)) as app:
        return app.settings.signing_keys


def _file_of(ring: KeyRing) -> Path:
    if ring.path is None:
        raise CommandError(
            "these keys do not come from a file: put a key of `onward keys new` first in ONWARD_SIGNING_KEYS, or name a "
            "file with --file",
            Exit.CONFIG,
        )
    return ring.path


def _tell(args: Namespace, ring: KeyRing) -> int:
    output.listing(args, [ring.keys], _KEYS, _as_data)
    return Exit.OK


def _as_data(key: Key) -> dict[str, Any]:
    return {"id": key.id, "state": key.state, "created_at": key.created_at, "fingerprint": key.fingerprint or None}


def _create(path: Path, ring: KeyRing) -> None:
    try:
        _write(path, ring, os.O_EXCL)
    except FileExistsError:
        raise CommandError(f"{path} already exists: `onward keys rotate --file` adds a key to it", Exit.USAGE) from None


def _replace(path: Path, ring: KeyRing) -> None:
    """Replace the file in one step: a reader gets all of the old one or all of the new one."""
    where = path.resolve()  # a link stays a link
    new_file = where.with_name(f"{where.name}.{secrets.token_hex(4)}")
    try:
        _write(new_file, ring, os.O_EXCL)
        with suppress(OSError):  # it may belong to another user, who must be able to read the new one
            status = where.stat()
            new_file.chmod(status.st_mode & 0o777)
            os.chown(new_file, status.st_uid, status.st_gid)
        new_file.replace(where)
    finally:
        new_file.unlink(missing_ok=True)


def _write(path: Path, ring: KeyRing, flags: int) -> None:
    """Write the file; only its owner may read it, from the first moment on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(ring.to_file())
        file.flush()
        os.fsync(file.fileno())


_STYLES = {"signs": "bold green", "verifies": "green", "revoked": "red"}

_KEYS: tuple[Column[Key], ...] = (
    Column("KEY", lambda key: key.id),
    Column("STATE", lambda key: key.state, style=lambda key: _STYLES[key.state]),
    Column("CREATED", lambda key: f"{key.created_at:%Y-%m-%d %H:%M}" if key.created_at else ""),
    Column("FINGERPRINT", lambda key: key.fingerprint),
)

_FILE = argument("--file", "the key file; else the one that the settings name", metavar="FILE", type=Path, files=True)
_ID = argument("--id", "a name for the key; else the day and four characters", metavar="ID")

GROUP = Group(
    "keys",
    "make, list, rotate and revoke the keys that sign jobs",
    (
        Command(
            "new",
            "make a key: print it, or write it to a new file",
            new,
            (
                argument("--file", "a file to write it to, for its owner only", metavar="FILE", type=Path, files=True),
                _ID,
            ),
            about="For example: `onward keys new --file /etc/shop/keys.json`, then ONWARD_SIGNING_KEYS_FILE with that path "
            "for workers and for programs that enqueue. Without --file the secret is printed, for ONWARD_SIGNING_KEYS.",
        ),
        Command(
            "list",
            "list the keys and what each is for, without their secrets",
            list_keys,
            (_FILE,),
            about="For example: `onward keys list --file /etc/shop/keys.json`. Two places whose fingerprints are the same "
            "have the same secret.",
        ),
        Command(
            "rotate",
            "add a key to a file, and in a second step let it sign",
            rotate,
            (
                _FILE,
                argument("--promote", "let the newest key that only verifies sign from now on", action="store_true"),
                argument("--id", "a name for the new key, or with --promote which key", metavar="ID"),
            ),
            about="For example: `onward keys rotate --file keys.json`, and when all machines have the file `onward keys "
            "rotate --file keys.json --promote`. Programs that run read it again within seconds. The old key verifies until "
            "it is revoked.",
        ),
        Command(
            "revoke",
            "revoke a key: workers run no job that it signed any more",
            revoke,
            (_FILE, argument("id", "the key", metavar="ID")),
            about="For example: `onward keys revoke k20261115-3f2a --file keys.json`. Workers that run read it within "
            "seconds. Jobs that it signed are discarded when they are claimed, and kept with the reason.",
        ),
    ),
)
