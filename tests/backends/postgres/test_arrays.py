"""Lists as arrays: whatever text, numbers and bytes there are come back as they were."""

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.backends.postgres import arrays

# A server keeps no NUL in a text, and no lone surrogate.
texts = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"))


@pytest.fixture(scope="module")
def returned(postgres):
    """Send a list to the server and get it back."""
    with psycopg.connect(postgres.url(), cursor_factory=psycopg.RawCursor) as connection:
        connection.adapters.register_dumper(arrays.Blobs, arrays.blobs_dumper)

        def send(values, kind):
            sent = connection.execute(f"SELECT cast($1 AS {kind}[])", (arrays.as_array(values),), binary=True)
            return sent.fetchone()[0]

        yield send


@given(values=st.lists(st.none() | texts))
def test_texts(returned, values):
    assert returned(values, "text") == values


@given(values=st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_numbers(returned, values):
    assert returned(values, "bigint") == values


@given(values=st.lists(st.none() | st.booleans()))
def test_booleans(returned, values):
    assert returned(values, "boolean") == values


@given(values=st.lists(st.none() | st.binary()))
def test_bytes(returned, values):
    assert returned(values, "bytea") == values


@pytest.mark.parametrize("text", ["null", "NULL", "", "{}", '"', "\\", "a,b", " ", "\n", "ü", "\x7f"])
def test_a_text_that_looks_like_syntax_is_a_text(returned, text):
    assert returned([text, text], "text") == [text, text]


def test_a_lone_surrogate_is_an_error_here_and_not_a_wrong_text_there():
    with pytest.raises(UnicodeEncodeError):
        arrays.literal(["\ud800"])
