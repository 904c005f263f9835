"""Messages as the broker reads and writes them."""

from hypothesis import given
from hypothesis import strategies as st

from tests.servers.servicebus_standin.codec import Described, Long, Symbol, Timestamp, UByte, UInt, ULong, encode
from tests.servers.servicebus_standin.message import Content, read_request, render, render_reply, unpack_batch
from tests.servers.servicebus_standin.queue import DeadLetter, Stored


def section(code, value):
    return encode(Described(ULong(code), value))


def test_what_the_broker_needs_is_read():
    raw = (
        section(0x70, [True, UByte(4), UInt(1500)])
        + section(0x72, {Symbol("x-opt-scheduled-enqueue-time"): Timestamp(2_000), Symbol("x-opt-partition-key"): "p"})
        + section(0x73, ["the id", None, "to"])
        + section(0x75, b"body")
    )

    content = Content.parse(raw)

    assert content.message_id == "the id"
    assert content.scheduled_at == 2_000_000
    assert content.time_to_live == 1_500_000
    assert content.size == len(raw)


@given(
    st.dictionaries(st.text(max_size=9), st.integers(0, 9).map(UInt), max_size=4),
    st.sampled_from([b"", b"short", b"long" * 99]),
)
def test_the_rest_passes_through(application, body):
    raw = section(0x73, ["id"]) + section(0x74, application) + section(0x75, body) + section(0x78, {Symbol("f"): 1.5})

    again = Content.parse(render(Stored(Content.parse(raw), 7, 1_000)))

    assert again.application == application
    assert again.body == section(0x75, body) + section(0x78, {Symbol("f"): 1.5})
    assert again.properties == section(0x73, ["id"])
    assert again.annotations["x-opt-sequence-number"] == Long(7)


def test_annotations_for_the_next_hop_end_here():
    assert Content.parse(section(0x71, {Symbol("hop"): "x"}) + section(0x75, b"b")).body == section(0x75, b"b")


def test_a_dead_letter_says_why_among_the_application_properties():
    content = Content.parse(section(0x73, ["id"]) + section(0x74, {"a": "b"}) + section(0x75, b"b"))
    dead = Stored(content, 1, 0, dead_letter=DeadLetter("why", None))

    assert Content.parse(render(dead)).application == {"a": "b", "DeadLetterReason": "why"}


def test_a_batch_is_unpacked():
    inner = [section(0x75, b"1"), section(0x75, b"2")]

    assert unpack_batch(section(0x73, ["id"]) + b"".join(section(0x75, each) for each in inner)) == inner


def test_a_reply_is_a_message_that_answers():
    request_id, application, value = read_request(
        render_reply("the request", {"statusCode": UInt(200)}, {"a": UInt(1)})
    )

    assert (request_id, application, value) == (None, {"statusCode": 200}, {"a": 1})
