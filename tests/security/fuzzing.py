"""What an attacker can hand over, as functions of bytes: each may raise what is documented, and nothing else.

The same functions are walked by Hypothesis, fed with the corpus beside this file, and hunted by a fuzzer that looks at which
code a text reaches (`make fuzz`).  What that finds goes into the corpus.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from unittest import mock
from urllib.parse import urlsplit

import msgspec

from onward import config
from onward.backends.beanstalk.url import parse_url as beanstalk_url
from onward.backends.mysql.url import parse_url as mysql_url
from onward.backends.postgres.url import parse_url as postgres_url
from onward.backends.redis.url import parse_url as redis_url
from onward.backends.servicebus.url import parse_url as servicebus_url
from onward.backends.sqlite.url import parse_url as sqlite_url
from onward.base import names
from onward.base.failure import Failure
from onward.cli import main
from onward.cli.exits import Exit
from onward.errors import (
    ArgumentError,
    DecryptionFailed,
    EnvelopeError,
    InvalidName,
    InvalidTime,
    OnwardError,
    OptionError,
)
from onward.handlers.target import read_url
from onward.handlers.url import retry_after
from onward.job.arguments import decode_result
from onward.job.envelope import Letter, Sealed, open_sealed
from onward.job.payload_limits import misshapen
from onward.job.scrubbing import scrubber
from onward.job.secrets import masked
from onward.security.encryption import Encrypted, Encryption
from onward.security.key_ring import KeyRing

__all__ = ["CLEAR", "CORPUS", "ENCRYPTION", "ID", "TARGETS"]

CORPUS = Path(__file__).parent / "corpus"
ID = "0192e4a0c0007000800000000000abcd"

# An attacker has not got these keys.  So nothing decrypts but what is in the corpus, and that is this.
ENCRYPTION = Encryption(KeyRing.parse(f"k2:{'n' * 40},k1:{'o' * 40},k0:revoked"), "default", enabled=True)
CLEAR = b'{"card":4242}'

# Commands that end by themselves and at once, and touch nothing but their store.
_COMMANDS = ("job", "dead", "queue", "enqueue", "reap", "prune", "health", "config", "version", "completion")


def envelope(data: bytes) -> None:
    """Sealed bytes, as a store hands them over."""
    with contextlib.suppress(EnvelopeError):
        letter = open_sealed(Sealed(ID, "mail", data), namespace="default")
        assert (letter.id, letter.queue, letter.namespace) == (ID, "mail", "default")


def encrypted(data: bytes) -> None:
    """What stands where something encrypted belongs: how it is said to be encrypted, and the ciphertext."""
    enc, _, ciphertext = data.partition(b"\xff")
    letter = Letter(
        id=ID,
        namespace="default",
        queue="mail",
        job="send",
        max_crashes=3,
        enqueued_at=1,
        payload=msgspec.Raw(ciphertext),
        enc=enc.decode("utf-8", "replace"),
    )
    assert ENCRYPTION.marker(letter).isprintable()
    with contextlib.suppress(DecryptionFailed):
        assert bytes(ENCRYPTION.open(letter).payload) == CLEAR
    result = ENCRYPTION.read_result(ID, "mail", 1, data)
    _, _, signed = data.partition(b"\n")  # without the line of a signature
    assert result in (data, CLEAR, signed) or isinstance(result, Encrypted)
    text = data.decode("utf-8", "surrogateescape")
    ENCRYPTION.read_failure(ID, "mail", 1, Failure("ValueError", text, text))
    for read in (ENCRYPTION.read_reason, ENCRYPTION.read_note):
        shown = read(ID, "mail", text)
        assert shown == text or ENCRYPTION.is_encrypted(text)


def payload(data: bytes) -> None:
    """A payload or a result that an attacker stored, as it is shown."""
    with contextlib.suppress(ValueError, RecursionError):
        value = decode_result(data)
        masked(value, ["a"])
        misshapen(data)
    scrubber(data, ["a", "*/b"])(data.decode("utf-8", "replace"))


def name(data: bytes) -> None:
    """A name that ends up in keys, tubes, table names and line protocols."""
    text = data.decode("utf-8", "surrogateescape")
    for check in (names.queue_name, names.job_name, names.namespace_name):
        with contextlib.suppress(InvalidName):
            assert check(text) == text
            assert text.isascii()
            assert text.isprintable()
            assert not set(text) & set(" '\"\\;{}*>/")


def settings(data: bytes) -> None:
    """Settings from the environment: a name and a value, and so on."""
    words = [word.decode("utf-8", "replace").replace("\x00", "") for word in data.split(b"\xff")]
    environ = dict(zip((f"ONWARD_{word.upper()}" for word in words[::2]), words[1::2], strict=False))
    with contextlib.suppress(OptionError, InvalidName, InvalidTime):
        config.load({}, environ=environ, start=Path("/"))


def url(data: bytes) -> None:
    """Where a store is said to be."""
    text = data.decode("utf-8", "replace")
    for parse in (sqlite_url, postgres_url, mysql_url, redis_url, beanstalk_url, servicebus_url):
        with contextlib.suppress(OnwardError):
            parse(text)


def web_address(data: bytes) -> None:
    """Where a job wants to send a request."""
    with contextlib.suppress(ArgumentError):
        target = read_url(text := data.decode("utf-8", "replace"))
        other = urlsplit(text)
        assert other.username is other.password is None
        assert other.hostname is not None
        assert target.host == (other.hostname if target.address is None else str(ip_address(other.hostname)))
        assert other.port in (None, target.port)
        assert read_url(target.origin + target.path) == target


def answer(data: bytes) -> None:
    """When a server wants to be asked again."""
    assert retry_after(data.decode("latin-1"), 0) >= 0


def command_line(data: bytes) -> None:
    """The words of a command."""
    words = [word.decode("utf-8", "surrogateescape").replace("\x00", "") for word in data.split(b"\xff")]
    if words[0] not in _COMMANDS or any(word.startswith(("--url", "--app")) for word in words):
        return
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, {"ONWARD_URL": "memory://"}),
        mock.patch("sys.stdin", io.StringIO("{}")),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main(words)
    assert code in set(Exit)
    assert "this should not happen" not in err.getvalue()


TARGETS: dict[str, Callable[[bytes], None]] = {
    each.__name__: each
    for each in (envelope, encrypted, payload, name, settings, url, web_address, answer, command_line)
}
