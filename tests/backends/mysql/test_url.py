"""The URL: what can be said in it, and what is said of a slip."""

import pytest

from onward.backends.mysql.url import Options, parse_url
from onward.errors import BackendMisconfigured


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("mysql://ann:s3cret@db/shop", "mysql://db/shop"),
        ("mysql://ann:s%2F%40cret@db:3307/shop", "mysql://db:3307/shop"),
        ("mariadb:///shop", "mysql://localhost/shop"),
        ("mysql://ann@localhost/shop?unix_socket=/run/mysqld.sock", "mysql:///run/mysqld.sock/shop"),
    ],
)
def test_the_place_is_told_without_who_and_how(url, place):
    assert parse_url(url)[0].place == place


def test_signs_in_a_password_are_unquoted():
    assert parse_url("mysql://ann:s%2F%40cret@db/shop")[0].arguments["password"] == "s/@cret"


def test_the_usual_options():
    assert parse_url("mysql://db/shop")[1] == Options(pool_size=4, lock_timeout=30, writers="many")


def test_every_option_can_be_given():
    address, options = parse_url(
        "mysql://db/shop?pool_size=9&lock_timeout=5&writers=one&ssl_ca=/ca.pem&ssl_verify_identity=true&connect_timeout=3"
    )

    assert options == Options(pool_size=9, lock_timeout=5, writers="one")
    given = {name: address.arguments[name] for name in ("ssl_ca", "ssl_verify_identity", "connect_timeout")}
    assert given == {"ssl_ca": "/ca.pem", "ssl_verify_identity": True, "connect_timeout": 3}


@pytest.mark.parametrize("query", ["pool_size=0", "pool_size=many", "writers=two", "ssl_verify_cert=maybe"])
def test_a_value_that_means_nothing_is_refused(query):
    with pytest.raises(BackendMisconfigured, match=query.replace("=", " is '")):
        parse_url(f"mysql://db/shop?{query}")


def test_an_unknown_option_is_refused():
    with pytest.raises(BackendMisconfigured, match="did you mean 'pool_size'"):
        parse_url("mysql://db/shop?pool_sise=3")


@pytest.mark.parametrize("url", ["mysql://db", "mysql://db/", "mysql://db/a/b", "mysql://db:port/shop"])
def test_a_url_that_names_no_database_is_refused(url):
    with pytest.raises(BackendMisconfigured, match="mysql://user"):
        parse_url(url)
