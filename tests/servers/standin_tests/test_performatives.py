"""Frames' bodies: written in full, read as they come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.servers.servicebus_standin.codec import CodecError, Described, Symbol, UInt, ULong, decode, encode
from tests.servers.servicebus_standin.performatives import Detach, End, Flow, Transfer, amqp_error, read

NUMBER = st.integers(0, 2**32 - 1)


@given(handle=NUMBER, count=st.none() | NUMBER, drain=st.none() | st.booleans(), payload=st.binary(max_size=20))
def test_what_is_said_is_heard(handle, count, drain, payload):
    said = Flow(
        incoming_window=1, next_outgoing_id=2, outgoing_window=3, handle=handle, delivery_count=count, drain=drain
    )

    assert read(said.encoded() + payload) == (said, payload)


def test_numbers_are_written_as_the_type_of_their_field():
    fields = decode(Transfer(handle=1, delivery_id=2, more=False).encoded()).value

    assert [type(each).__name__ for each in fields[:2]] == ["UInt", "UInt"]


def test_nulls_at_the_end_are_written():
    assert decode(Transfer(handle=1).encoded()).value == [UInt(1)] + [None] * 10


def test_fields_that_were_left_out_are_null():
    said, payload = read(encode(Described(ULong(0x16), [UInt(5)])))

    assert (said, payload) == (Detach(handle=5, closed=None, error=None), b"")


def test_an_error_has_a_condition():
    said, _ = read(End(error=amqp_error("amqp:not-found", "nowhere")).encoded())

    assert said.error.value == [Symbol("amqp:not-found"), "nowhere", None]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (Described(ULong(0x17), [None, None]), "end has 1 fields, not 2"),
        (Described(ULong(0x99), []), "not the descriptor of a performative"),
        (Described(Symbol("amqp:end:list"), []), "not the descriptor of a performative"),
        ([], "does not begin with a performative"),
        (Described(ULong(0x17), {}), "does not begin with a performative"),
    ],
)
def test_what_is_no_performative_is_refused(value, why):
    with pytest.raises(CodecError, match=why):
        read(encode(value))
