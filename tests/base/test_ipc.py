"""Messages between our processes: whole, in order, whatever the socket does to them."""

import socket
import struct
import threading

import msgspec
import pytest

from onward.base.ipc import IpcChannel, IpcMessage, MalformedMessage


class Word(IpcMessage, frozen=True):
    text: str


class Number(IpcMessage, frozen=True):
    value: int


DECODER = msgspec.msgpack.Decoder(Word | Number)


@pytest.fixture
def ends():
    """Two ends of one channel."""
    ours, theirs = socket.socketpair()
    ends = IpcChannel(ours, DECODER), IpcChannel(theirs, DECODER)
    yield ends
    for end in ends:
        end.close()


@pytest.fixture
def wire():
    """A channel, and the bare socket at its other end."""
    ours, theirs = socket.socketpair()
    channel = IpcChannel(ours, DECODER)
    yield channel, theirs
    channel.close()
    theirs.close()


def framed(message):
    data = msgspec.msgpack.encode(message)
    return struct.pack("<I", len(data)) + data


def test_messages_arrive_whole_and_in_order(ends):
    here, there = ends
    here.send(Word("one"))
    here.post(Number(2))
    here.send(Word("three"))

    assert there.arrived() == [Word("one"), Number(2), Word("three")]
    assert there.arrived() == []


def test_a_message_that_comes_in_pieces_arrives_when_it_is_whole(wire):
    channel, wire_end = wire
    data = framed(Word("piecemeal")) + framed(Number(1))
    for byte in data[:-1]:
        wire_end.send(bytes([byte]))
        assert channel.arrived() in ([], [Word("piecemeal")])
    wire_end.send(data[-1:])

    assert channel.arrived() == [Number(1)]


def test_large_messages_of_many_threads_are_not_mixed_up(ends):
    here, there = ends
    texts = [letter * 1_000_000 for letter in "abcd"]
    threads = [threading.Thread(target=here.send, args=(Word(text),)) for text in texts]
    for thread in threads:
        thread.start()
    received = there.messages()
    arrived = [next(received).text for _ in texts]
    for thread in threads:
        thread.join()

    assert sorted(arrived) == texts


def test_posting_never_waits_and_nothing_is_lost(ends):
    here, there = ends
    for number in range(50):
        here.post(Word(f"{number}:" + "x" * 100_000))  # the other end does not read, and it returns
    arrived = []
    while len(arrived) < 50:
        arrived += [int(word.text.partition(":")[0]) for word in there.arrived()]
        here.flush()

    assert arrived == [*range(50)]


def test_an_end_that_is_gone_is_noticed_and_raises_nothing(ends):
    here, there = ends
    here.send(Word("last"))
    here.close()

    assert there.arrived() == [Word("last")]
    assert there.arrived() is None
    assert list(there.messages()) == []
    there.send(Word("this is not heard"))
    there.post(Word("nor this"))


@pytest.mark.promise("F06")
@pytest.mark.parametrize(
    "garbage", [b"what a lovely day", struct.pack("<I", 4) + b"\xc1abc", framed({"type": "Unknown"})]
)
def test_what_is_not_a_message_is_told_apart_and_what_came_before_it_counts(wire, garbage):
    channel, wire_end = wire
    wire_end.send(framed(Word("sense")) + garbage)

    assert channel.arrived() == [Word("sense")]
    for _ in range(2):
        with pytest.raises(MalformedMessage):
            channel.arrived()


def test_a_reader_takes_nonsense_for_the_end(wire):
    channel, wire_end = wire
    wire_end.send(framed(Word("sense")) + b"what a lovely day")

    assert list(channel.messages()) == [Word("sense")]
