"""The types of AMQP: what goes out comes back, with its type."""

import contextlib
import math
import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.servers.servicebus_standin import codec
from tests.servers.servicebus_standin.codec import (
    Array,
    Byte,
    Char,
    CodecError,
    Described,
    Float,
    Int,
    Long,
    Opaque,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    decode,
    decode_at,
    encode,
)

BITS = {UByte: 8, UShort: 16, UInt: 32, ULong: 64}
SIGNED_BITS = {Byte: 8, Short: 16, Int: 32, Long: 64, Timestamp: 64}


def whole_numbers():
    unsigned = [st.integers(0, 2**bits - 1).map(kind) for kind, bits in BITS.items()]
    signed = [st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1).map(kind) for kind, bits in SIGNED_BITS.items()]
    return unsigned + signed


def letters(**options):
    return st.text(st.characters(exclude_categories=["Cs"]), **options)


ELEMENTS = [
    *whole_numbers(),
    st.booleans(),
    st.floats(allow_nan=False),
    st.floats(width=32, allow_nan=False).map(Float),
    st.characters(exclude_categories=["Cs"]).map(Char),
    st.uuids(),
    st.binary(max_size=300),
    letters(max_size=300),
    st.text(st.characters(codec="ascii"), max_size=300).map(Symbol),
]
OPAQUE = st.sampled_from([(0x74, 4), (0x84, 8), (0x94, 16)]).flatmap(
    lambda width: st.binary(min_size=width[1], max_size=width[1]).map(lambda raw: Opaque(width[0], raw))
)
ARRAYS = st.one_of([st.lists(element, max_size=5).map(Array) for element in ELEMENTS])
SIMPLE = st.one_of(st.none(), OPAQUE, *ELEMENTS)
# Keys of one kind: Python takes a symbol and a string of the same letters for one key.
MAP_KEYS = letters(max_size=20)
VALUES = st.recursive(
    st.one_of(SIMPLE, ARRAYS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.dictionaries(MAP_KEYS, inner, max_size=6),
        st.builds(Described, st.integers(0, 2**64 - 1).map(ULong), inner),
    ),
    max_leaves=6,
)


def typed(value):
    """The value with the names of all its types: ``UInt(1) == ULong(1)`` in Python, and must not be here."""
    if isinstance(value, list | Array):
        return type(value).__name__, [typed(each) for each in value]
    if isinstance(value, dict):
        return "dict", [(typed(key), typed(each)) for key, each in value.items()]
    if isinstance(value, Described):
        return "described", typed(value.descriptor), typed(value.value)
    return type(value).__name__, value


@given(VALUES)
def test_what_is_encoded_is_decoded(value):
    assert typed(decode(encode(value))) == typed(value)


@given(st.lists(SIMPLE, min_size=1, max_size=4))
def test_values_stand_behind_each_other(values):
    data = b"".join(encode(value) for value in values)

    at, found = 0, []
    while at < len(data):
        value, at = decode_at(data, at)
        found.append(value)

    assert [typed(value) for value in found] == [typed(value) for value in values]


@given(VALUES, st.data())
def test_a_value_that_is_cut_short_is_an_error(value, data):
    encoded = encode(value)
    length = data.draw(st.integers(0, len(encoded) - 1))

    with pytest.raises(CodecError):
        decode(encoded[:length])


@given(st.binary(max_size=64))
def test_noise_is_a_value_or_a_codec_error(noise):
    with contextlib.suppress(CodecError):
        decode(noise)


@pytest.mark.parametrize(
    ("encoded", "value"),
    [  # from the tables of the specification, part 1
        ("40", None),
        ("41", True),
        ("5600", False),
        ("43", UInt(0)),
        ("52ff", UInt(255)),
        ("7000000100", UInt(256)),
        ("44", ULong(0)),
        ("5380", ULong(128)),
        ("54ff", Int(-1)),
        ("5580", Long(-128)),
        ("8300000000000003e8", Timestamp(1000)),
        ("7300000041", Char("A")),
        ("98000102030405060708090a0b0c0d0e0f", UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")),
        ("a00201ff", b"\x01\xff"),
        ("a103c3a973", "és"),
        ("a304616d7170", Symbol("amqp")),
        ("b10000000161", "a"),
        ("45", []),
        ("c0050252075201", [UInt(7), UInt(1)]),
        ("c10602a1016b5207", {"k": UInt(7)}),
        ("e0040250" + "0102", Array([UByte(1), UByte(2)])),
        ("005324c00100", Described(ULong(0x24), [])),
    ],
)
def test_the_bytes_are_those_of_the_specification(encoded, value):
    assert typed(decode(bytes.fromhex(encoded))) == typed(value)


@pytest.mark.parametrize(
    ("encoded", "why"),
    [
        ("", "broken"),
        ("4040", "left over"),
        ("3f", "not the constructor"),
        ("c0030252075201", "does not end where it says"),
        ("c0060252075201", "larger than the data"),
        ("c10401a1016b", "key without a value"),
        ("c1050240", "larger than the data"),
        ("c1040245520740", "no simple value"),
        ("a1ff61", "255 bytes are announced"),
        ("a101ff", "broken"),
    ],
)
def test_broken_bytes_are_named(encoded, why):
    with pytest.raises(CodecError, match=why):
        decode(bytes.fromhex(encoded))


@pytest.mark.parametrize("value", [7, UInt(-1), UInt(2**32), UByte(256), object(), Symbol("é"), (1, 2), {1, 2}])
def test_what_has_no_place_in_amqp_is_refused(value):
    with pytest.raises(CodecError):
        encode(value)


def test_an_array_has_one_type():
    with pytest.raises(CodecError, match="Int, Long"):
        encode(Array([Int(1), Long(1)]))
    with pytest.raises(CodecError, match="an array of list"):
        encode(Array([[], []]))


def test_an_empty_array_has_no_constructor():
    # The SDK reads the count and goes on: a constructor behind it would be taken for the next value.
    assert encode(Array()).hex() == "e00100"
    assert decode(bytes.fromhex("e0020040")) == Array()


def test_an_array_may_be_described():
    assert decode(bytes.fromhex("e0070200531d500102")) == Array([Described(ULong(0x1D), 1), Described(ULong(0x1D), 2)])


def test_nan_and_infinity_travel():
    assert math.isnan(decode(encode(float("nan"))))
    assert decode(encode(Float("inf"))) == math.inf


def test_nesting_has_an_end():
    with pytest.raises(CodecError, match="nested deeper"):
        decode(b"\x00\x53\x01" * 200 + b"\x40")


def test_a_count_is_not_believed():
    with pytest.raises(CodecError, match="larger than the data"):
        decode(b"\xd0" + struct.pack(">II", 8, 2**31) + b"\x40\x40\x40\x40")


def test_the_module_names_what_it_offers():
    assert all(hasattr(codec, name) for name in codec.__all__)
