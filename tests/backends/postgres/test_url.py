"""The URL: ours are taken out, all else is the driver's."""

import pytest

from onward.backends.postgres.url import Options, parse_url
from onward.errors import BackendMisconfigured


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgresql:///shop", "postgresql:///shop"),
        ("postgresql://ann:s%2Fecret@db:5433/shop", "postgresql://ann:s%2Fecret@db:5433/shop"),
        ("postgresql://a,b/shop?target_session_attrs=any", "postgresql://a,b/shop?target_session_attrs=any"),
        ("postgresql:///shop?host=%2Frun%2Fpg&pool_size=2", "postgresql:///shop?host=%2Frun%2Fpg"),
    ],
)
def test_what_is_not_ours_is_passed_on(url, address):
    assert parse_url(url)[0] == address


def test_the_usual_options():
    assert parse_url("postgresql://db/shop")[1] == Options(durability="full", pooler="none", pool_size=4)


def test_every_option_can_be_given():
    options = parse_url("postgresql://db/shop?durability=relaxed&pooler=none&pool_size=9")[1]

    assert options == Options(durability="relaxed", pooler="none", pool_size=9)


@pytest.mark.parametrize(
    "query", ["durability=some", "pooler=session", "pool_size=0", "pool_size=many", "pool_size=-1"]
)
def test_a_value_that_means_nothing_is_refused(query):
    with pytest.raises(BackendMisconfigured, match=query.replace("=", " is '")):
        parse_url(f"postgresql://db/shop?{query}")


def test_a_pooler_keeps_no_settings():
    with pytest.raises(BackendMisconfigured, match="and a pooler shares sessions"):
        parse_url("postgresql://db/shop?durability=relaxed&pooler=transaction")
