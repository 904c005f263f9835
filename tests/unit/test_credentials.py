"""What looks like a credential is not shown, and no error tells the password of a store's URL."""

import traceback
from contextlib import closing

import pytest

from onward import Onward
from onward.config import load
from onward.credentials import secrets_of_url, unquoted, without_credentials
from onward.errors import BackendError, BackendMisconfigured
from onward.stores import open_store, tables_of

PASSWORDS = [
    *("hunter2x", "hunt@er2x", "hunt%40er2x", "hunt/er2x", "hunt:er2x", "hunt?er2x", "hunt#er2x", "hun[ter2x"),
    *("hunt er2x", "hunter2x%", "hunt%er2x", "hunt,er2x", "hunt\u00e9r2x"),
]
STORES = {
    "postgresql": "127.0.0.1:1/db",
    "mysql": "127.0.0.1:1/db",
    "redis": "127.0.0.1:1/0",
    "rediss": "127.0.0.1:1/0",
    "redis+sentinel": "127.0.0.1:1/m",
    "redis+cluster": "127.0.0.1:1",
    "servicebus": "127.0.0.1:1/queue",
    "beanstalk": "127.0.0.1:1",
    "sqlite": "/nowhere/x.db",
    "nosuch": "host",
}


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("postgresql://ann:hunter2@db/shop", "postgresql://ann:***@db/shop"),
        ("postgresql://ann:hun@ter@2@db/shop", "postgresql://ann:***@db/shop"),
        ("postgresql://ann:hun/ter?2@db/shop is away", "postgresql://ann:***@db/shop is away"),
        ("postgresql://ann:hun%40ter@db/shop", "postgresql://ann:***@db/shop"),
        ("redis://:a:b@cache/0", "redis://:***@cache/0"),
        ("redis://ann@cache/0", "redis://ann@cache/0"),
        ("redis://cache:6379/0 by bob@example.org", "redis://cache:6379/0 by bob@example.org"),
        ("http://example.org:8080/a@b", "http://example.org:8080/a@b"),
        ("postgresql://db/shop?user=a&password=b&sslpassword=c", "postgresql://db/shop?user=a&password=***&sslpassword=***"),
        ("redis+sentinel://a/m?sentinel_password=x&db=1", "redis+sentinel://a/m?sentinel_password=***&db=1"),
        ("Endpoint=sb://h/;SharedAccessKeyName=w;SharedAccessKey=a+b/c=", "Endpoint=sb://h/;SharedAccessKeyName=w;SharedAccessKey=***"),
        ("host=db password='hunter 2' user=ann", "host=db password=*** user=ann"),
        ("https://example.org/?access_token=abc&x=1", "https://example.org/?access_token=***&x=1"),
    ],
)  # fmt: skip
def test_the_password_of_a_url_is_not_shown(said, kept):
    assert without_credentials(said) == kept
    assert without_credentials(kept) == kept


def test_a_credential_at_the_edge_of_what_is_looked_at_is_not_shown():
    for length in range(32_700, 32_800):
        text = without_credentials("x" * length + " redis://ann:hunter2@cache/0")
        assert "hunt" not in text


def test_a_long_text_without_an_end_takes_no_time():
    assert without_credentials("a://b:" * 1_000_000).startswith("a://b:")


def _connect(settings):
    with closing(open_store(settings)) as store:
        store.connect()


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("scheme", STORES)
def test_no_error_of_opening_a_store_tells_its_password(scheme, password):
    settings = load({"url": f"{scheme}://ann:{password}@{STORES[scheme]}"}, environ={})

    for act in (_connect, lambda settings: tables_of(settings).pending()):
        with pytest.raises(BackendError) as failed:
            act(settings)
        told = "".join(traceback.format_exception(failed.value))
        lines = [line for line in told.splitlines() if not line.startswith("    ")]  # without the lines of code
        assert not any(part in line for line in lines for part in ("hunt", "er2x", "ter2x", "r2x"))


def test_a_password_that_is_not_quoted_is_refused_with_the_fix():
    with pytest.raises(BackendMisconfigured, match="there is a '/' in the password of this URL: write %2F for it"):
        Onward("redis://ann:hun/ter2@cache/0")


def test_the_secret_parts_of_a_url_are_found_in_every_form():
    assert secrets_of_url("mysql://ann:hun%40ter2@db/shop") == ["hun%40ter2", "hun@ter2", "ter2"]
    assert secrets_of_url("servicebus://Endpoint=sb://h/;SharedAccessKeyName=work;SharedAccessKey=ab+d=") == ["ab+d="]
    assert secrets_of_url("sqlite:///jobs.db") == []


def test_a_port_is_no_password():
    assert unquoted("postgresql://db:5432/shop?application_name=a@b") is None
    assert unquoted("redis+unix:///run/a@b.sock") is None
