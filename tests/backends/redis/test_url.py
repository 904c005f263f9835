"""URLs: what they may say, and that no message repeats a password."""

import pytest

from onward import Onward
from onward.backends.opening import _REDIS
from onward.backends.redis.url import SCHEMES, parse_url
from onward.errors import BackendMisconfigured, BackendUnavailable


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("redis://", "redis://localhost:6379/0"),
        ("valkey://cache:7000/3", "redis://cache:7000/3"),
        ("rediss://user:p%40ss@cache", "rediss://cache:6379/0"),
        ("redis://[::1]:7000/2", "redis://[::1]:7000/2"),
        ("redis://[::1]", "redis://[::1]:6379/0"),
        ("redis+unix:///run/redis.sock?db=2", "redis+unix:///run/redis.sock"),
        ("redis+sentinel://a,b:1/main/4", "redis+sentinel://a:26379,b:1/main/4"),
        ("valkeys+cluster://a:7000,b:7001", "rediss+cluster://a:7000,b:7001"),
    ],
)
def test_a_place_is_named_without_its_secrets(url, place):
    assert parse_url(url)[0].place == place


def test_what_is_escaped_is_read():
    address, _ = parse_url("rediss://us%2Fer:p%40ss@cache")

    assert (address.username, address.password, address.tls) == ("us/er", "p@ss", True)


def test_the_application_knows_every_scheme():
    assert set(_REDIS) == set(SCHEMES)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://:secret@host:x/0", "a port is 'x'"),
        ("redis://:secret@[::1/0", "an address in brackets is not closed"),
        ("redis://:secret@::1/0", "write an IPv6 address in brackets"),
        ("redis://:secret@host/zero", "the database is 'zero'"),
        ("redis://:secret@host?pool_sise=3", "did you mean 'pool_size'"),
        ("redis://:secret@host?pool_size=0", "from 1 to 1000"),
        ("redis://:secret@host?allow_lossy=perhaps", "'true' or 'false'"),
        ("redis+unix://host", "names no socket"),
        ("redis+sentinel://:secret@host", "names no master"),
        ("redis+cluster://:secret@host/3", "no database but 0"),
    ],
)
def test_a_mistake_is_named_and_the_password_is_not(url, words):
    with pytest.raises(BackendMisconfigured, match=words) as raised:
        parse_url(url)

    assert "secret" not in str(raised.value)


def test_a_server_that_is_not_there_is_unavailable_and_the_password_stays_secret(tmp_path):
    with pytest.raises(BackendUnavailable) as raised:
        Onward(f"redis+unix://:secret@{tmp_path}/nobody").backend.counts()

    assert "secret" not in str(raised.value)
