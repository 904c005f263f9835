"""Sealed bytes: what goes in comes out, what was damaged or moved is refused, and in no other way than by EnvelopeError."""

import hashlib

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from onward.base.clock import SECOND
from onward.errors import EnvelopeError, EnvelopeTooNew, PayloadTooLarge
from onward.job.envelope import DEFAULT_LIMIT, LARGEST, Form, Letter, Sealed, open_sealed, seal
from onward.job.retry import Additive, Exponential, Fixed, Full, Linear, NoDelay, PlusMinus

text = st.text(st.characters(exclude_categories=["Cs"]))
name = st.text("abz_:.-09", min_size=1, max_size=8)
instants = st.integers(0, 4_000_000_000 * SECOND)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
policies = st.sampled_from(
    [NoDelay(), Fixed(30), Linear(60, max=600), Exponential(base=5, max=300, jitter=Additive(0.25), cap="soft")]
    + [Exponential(jitter=jitter) for jitter in (None, True, Full(), PlusMinus(0.5))]
)
letters = st.builds(
    Letter,
    id=st.uuids().map(lambda number: number.hex),
    namespace=name,
    queue=name,
    job=name,
    max_crashes=st.integers(1, 1000),
    enqueued_at=instants,
    name=st.none() | name,
    payload=plain.map(msgspec.json.encode).map(msgspec.Raw),
    max_retries=st.none() | st.integers(0, 1_000_000),
    timeout=st.none() | st.floats(0, 1e9),
    retry=st.none() | policies,
    priority=st.integers(-100, 100),
    not_before=st.none() | instants,
    expires_at=st.none() | instants,
    unique_key=st.none() | text,
    unique_strategy=st.sampled_from(["ignore_new", "cancel_existing"]),
    idempotency_key=st.none() | text,
    idempotency_ttl=st.none() | st.floats(0, 1e9),
    key_scope=st.sampled_from(["job", "global"]),
    single_instance=st.booleans(),
    isolation=st.sampled_from([None, "thread", "process"]),
    meta=st.dictionaries(text, plain, max_size=3),
    enc=st.none() | text,
)


def a_letter(**fields):
    known = {
        "id": "0192e4a0c0007000800000000000abcd",
        "namespace": "default",
        "queue": "mail",
        "job": "send",
        "max_crashes": 3,
        "enqueued_at": 1_700_000_000 * SECOND,
    }
    return Letter(**(known | fields))


FULL = seal(
    a_letter(
        payload=msgspec.Raw(b'{"to":"\xc3\xa9\\u00e9","n":[1,2.5e3,null,true]}'),
        max_retries=5,
        timeout=30.0,
        retry=Exponential(base=5, max=300, jitter=PlusMinus(0.15)),
        priority=10,
        not_before=1_700_000_100 * SECOND,
        unique_key="welcome:42",
        meta={"trace": "00-abc", "depth": [[[]]]},
    )
)


def body(envelope):
    return envelope.data.split(b"\n", 1)[1]


def found(data, envelope=FULL):
    """These bytes where that envelope was stored."""
    return Sealed(envelope.id, envelope.queue, data)


# The round trip


@given(letters)
def test_what_is_sealed_is_what_is_opened(letter):
    envelope = seal(letter)

    opened = open_sealed(Sealed(envelope.id, envelope.queue, envelope.data), namespace=letter.namespace)

    assert bytes(opened.payload) == bytes(letter.payload)
    blank = msgspec.Raw(b"{}")
    assert msgspec.structs.replace(opened, payload=blank) == msgspec.structs.replace(letter, payload=blank)


@given(letters)
def test_the_columns_repeat_the_letter(letter):
    envelope = seal(letter, delay=7)

    for column in ("id", "queue", "job", "enqueued_at", "max_crashes", "priority", "not_before", "expires_at"):
        assert getattr(envelope, column) == getattr(letter, column)
    assert envelope.delay == 7


@given(letters)
def test_the_same_letter_is_sealed_into_the_same_bytes(letter):
    assert seal(letter).data == seal(letter).data


def test_the_payload_travels_byte_for_byte():
    payload = b'{ "spaced" :  1.50,\t"b":"\\u00e9" }'

    opened = open_sealed(found(seal(a_letter(payload=msgspec.Raw(payload))).data))

    assert bytes(opened.payload) == payload


def test_the_format_of_the_bytes_is_fixed():
    envelope = seal(a_letter(payload=msgspec.Raw(b'{"user_id":42}'), max_retries=5, retry=Fixed(30)))

    assert envelope.data == (
        b"onward/1 - -\n"
        b'{"id":"0192e4a0c0007000800000000000abcd","namespace":"default","queue":"mail","job":"send","max_crashes":3,'
        b'"enqueued_at":1700000000000000,"payload":{"user_id":42},"max_retries":5,'
        b'"retry":{"strategy":"fixed","delay":30,"max":null,"jitter":null,"cap":"hard"}}'
    )


@pytest.mark.promise("S12")
def test_the_budget_and_the_policy_are_frozen_in_the_envelope():
    envelope = seal(a_letter(max_retries=5, retry=Exponential(base=5, max=300)))

    letter = open_sealed(envelope)

    assert (letter.max_retries, letter.retry) == (5, Exponential(base=5, max=300))


def test_what_was_left_open_is_absent_so_that_the_worker_decides():
    fields = msgspec.json.decode(body(seal(a_letter())))

    assert fields.keys() == {"id", "namespace", "queue", "job", "max_crashes", "enqueued_at"}


def test_what_is_absent_means_what_it_always_meant():
    letter = open_sealed(seal(a_letter()))

    left_open = {name: getattr(letter, name) for name in Letter.__struct_fields__[6:] if getattr(letter, name)}
    assert left_open == {"payload": msgspec.Raw(b"{}"), "unique_strategy": "ignore_new", "key_scope": "job"}


def test_a_plain_letter_asks_nothing_special_of_the_store():
    envelope = seal(a_letter())

    assert (envelope.delay, envelope.priority, envelope.idempotency_ttl) == (0, 0, 86_400 * SECOND)
    assert {envelope.not_before, envelope.expires_at, envelope.unique_key, envelope.single_instance} == {None}


def test_a_field_that_a_later_onward_added_is_passed_over():
    data = FULL.data.replace(b'"queue"', b'"colour":"red","queue"', 1)

    assert open_sealed(found(data)) is not None


# The header


def test_an_unsigned_envelope_says_so_with_dashes():
    assert seal(a_letter()).data.startswith(b"onward/1 - -\n{")


def test_a_signed_envelope_carries_key_and_signature_of_the_very_bytes():
    signed = []

    def sign(queue):
        return lambda sealed: signed.append((queue, sealed)) or b"onward/1 key7 c2lnbmVk\n" + sealed

    envelope = seal(a_letter(), sign=sign)

    assert envelope.data == b"onward/1 key7 c2lnbmVk\n" + signed[0][1]
    assert signed[0][0] == envelope.queue
    assert open_sealed(envelope) == open_sealed(seal(a_letter()))


@pytest.mark.promise("F64")
@pytest.mark.parametrize("header", [b"onward/2 - -\n", b"onward/2 a b c d\n", b"onward/999999 anything else\n"])
def test_a_newer_version_is_told_apart_from_damage(header):
    with pytest.raises(EnvelopeTooNew, match="upgrade this worker") as raised:
        open_sealed(found(header + b"whatever the future brings"))

    assert raised.value.found > raised.value.known == 1


@pytest.mark.promise("F57")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"{}",
        b"onward/1",
        b"onward/1 - -",
        b"onward/1 - -\n",
        b"onward/1 -\n{}",
        b"onward/1 - - -\n{}",
        b"onward/0 - -\n{}",
        b"onward/-1 - -\n{}",
        b"onward/one - -\n{}",
        b"onward/ - -\n{}",
        b"onward/\xd9\xa1 - -\n{}",
        b"onward/1234567 - -\n{}",
        b"backward/1 - -\n{}",
        b"onward/1 - -\n[]",
        b"onward/1 - -\nnull",
        b"onward/1 - -\n{}",
        b"onward/1 " + b"k" * 1000 + b" s\n{}",
        b"\x80\x04\x95\x00\x00",
    ],
)
def test_bytes_that_are_no_envelope_are_refused(data):
    with pytest.raises(EnvelopeError):
        open_sealed(found(data))


# Damage


@pytest.mark.promise("F57")
def test_every_truncation_is_refused():
    for length in range(len(FULL.data)):
        with pytest.raises(EnvelopeError):
            open_sealed(found(FULL.data[:length]))


@pytest.mark.promise("F57")
def test_every_changed_byte_is_refused_or_leaves_id_and_queue_alone():
    for position in range(len(FULL.data)):
        for byte in (0x00, 0x0A, 0x22, 0x30, 0x39, 0x5C, 0x7B, 0x80, 0xFF, FULL.data[position] ^ 1):
            data = bytearray(FULL.data)
            data[position] = byte
            assert opens_here_or_is_refused(bytes(data))


@pytest.mark.promise("F57")
@given(st.lists(st.tuples(st.integers(0, len(FULL.data)), st.integers(0, 3), st.binary(max_size=4)), min_size=1))
def test_random_damage_is_refused_or_leaves_id_and_queue_alone(cuts):
    data = FULL.data
    for position, removed, inserted in cuts:
        data = data[:position] + inserted + data[position + removed :]

    assert opens_here_or_is_refused(data)


@pytest.mark.promise("F57")
@given(st.binary())
@example(b"[" * 100_000)
@example(b'{"meta":' * 100_000)
@example(b'{"payload":' + b"[" * 100_000)
def test_any_bytes_after_a_good_header_are_refused(junk):
    with pytest.raises(EnvelopeError):
        open_sealed(found(b"onward/1 - -\n" + junk))


@pytest.mark.promise("F57")
@pytest.mark.parametrize(
    "fields",
    [
        {"id": 5},
        {"id": None},
        {"queue": ["mail"]},
        {"max_crashes": "3"},
        {"max_crashes": 1.5},
        {"enqueued_at": 10**40},
        {"expires_at": 10**18},
        {"not_before": -(10**18)},
        {"timeout": -1},
        {"timeout": 1e300},
        {"timeout": "30"},
        {"idempotency_ttl": 1e300},
        {"retry": {"strategy": "custom"}},
        {"retry": {"strategy": "exponential", "base": -5}},
        {"retry": {"strategy": "exponential", "max": 1e300}},
        {"unique_strategy": "whatever"},
        {"isolation": "container"},
        {"meta": []},
    ],
    ids=str,
)
def test_a_field_that_no_client_could_have_written_is_refused(fields):
    changed = msgspec.json.decode(body(FULL)) | fields

    with pytest.raises(EnvelopeError):
        open_sealed(found(b"onward/1 - -\n" + msgspec.json.encode(changed)))


@pytest.mark.promise("F60")
def test_a_refusal_quotes_little_of_the_bytes_that_it_refuses():
    envelope = seal(a_letter(queue="q" * 5000))

    with pytest.raises(EnvelopeError) as raised:
        open_sealed(found(envelope.data))

    assert len(str(raised.value)) < 300


def opens_here_or_is_refused(data):
    try:
        letter = open_sealed(found(data))
    except EnvelopeError:
        return True
    return (letter.id, letter.queue) == (FULL.id, FULL.queue)


# Where it lay


def test_an_envelope_found_under_another_id_is_refused():
    with pytest.raises(EnvelopeError, match="found under 'other'"):
        open_sealed(Sealed("other", FULL.queue, FULL.data))


def test_an_envelope_found_in_another_queue_is_refused():
    with pytest.raises(EnvelopeError, match="sealed for queue 'mail' but found in 'ops'"):
        open_sealed(Sealed(FULL.id, "ops", FULL.data))


def test_an_envelope_of_another_namespace_is_refused():
    with pytest.raises(EnvelopeError, match="this worker serves 'staging'"):
        open_sealed(FULL, namespace="staging")


# The limit


@pytest.mark.promise("F61")
def test_the_limit_counts_the_sealed_bytes_and_is_itself_allowed():
    letter = a_letter(payload=msgspec.Raw(b'"' + b"x" * 1000 + b'"'))
    size = len(body(seal(letter)))

    assert seal(letter, limit=size)
    with pytest.raises(PayloadTooLarge):
        seal(letter, limit=size - 1)


@pytest.mark.promise("F61")
def test_a_job_that_is_too_large_is_refused_with_both_numbers():
    with pytest.raises(PayloadTooLarge, match="the limit is 262,144") as raised:
        seal(a_letter(payload=msgspec.Raw(b'"' + b"x" * DEFAULT_LIMIT + b'"')))

    assert raised.value.size > raised.value.limit == DEFAULT_LIMIT


# Keys


def test_keys_belong_to_the_job():
    envelope = seal(a_letter(unique_key="welcome:42", idempotency_key="order-1"))

    assert (envelope.unique_key, envelope.idempotency_key) == ("send/welcome:42", "send/order-1")


def test_global_keys_belong_to_no_job():
    ours = seal(a_letter(job="send", unique_key="k", idempotency_key="i", key_scope="global"))
    theirs = seal(a_letter(job="bill", unique_key="k", idempotency_key="i", key_scope="global"))

    assert (ours.unique_key, ours.idempotency_key) == (theirs.unique_key, theirs.idempotency_key)


@given(name, text, st.sampled_from(["job", "global"]), name, text, st.sampled_from(["job", "global"]))
@example("a", "b", "job", "x", "a/b", "global")
@example("a", "/b", "job", "x", "a/b", "global")
def test_two_keys_meet_only_if_scope_and_key_are_the_same(job, key, scope, other_job, other_key, other_scope):
    one = seal(a_letter(job=job, unique_key=key, key_scope=scope))
    other = seal(a_letter(job=other_job, unique_key=other_key, key_scope=other_scope))

    same_scope = scope == other_scope and (scope == "global" or job == other_job)
    assert (one.unique_key == other.unique_key) == (same_scope and key == other_key)


def test_keys_and_the_single_instance_belong_to_the_name_of_a_job_that_has_one():
    named = seal(a_letter(name="nightly", single_instance=True, unique_key="u", idempotency_key="i"))

    assert (named.single_instance, named.unique_key, named.idempotency_key) == ("nightly", "nightly/u", "nightly/i")
    assert seal(a_letter(name="nightly")).single_instance is None


@pytest.mark.parametrize(("ttl", "micros"), [(None, 86_400 * SECOND), (0.0, 0), (60, 60 * SECOND), (2.3, 2_300_000)])
def test_an_idempotency_key_is_kept_for_its_time_to_the_microsecond(ttl, micros):
    assert seal(a_letter(idempotency_key="k", idempotency_ttl=ttl)).idempotency_ttl == micros


class TestAForm:
    @given(letters, st.lists(letters, min_size=1, max_size=3))
    def test_filled_in_it_is_the_sealed_letter(self, letter, others):
        at = others[0].enqueued_at
        whole = [replace(letter, id=other.id, payload=other.payload, enqueued_at=at) for other in others]

        filled = Form(letter).fill([other.id for other in others], [bytes(other.payload) for other in others], at)

        assert filled == [seal(each) for each in whole]
        assert [each.data for each in filled] == [seal(each).data for each in whole]

    @given(letters, letters, st.booleans())
    def test_signed_and_encrypted_it_is_the_letter_that_was_encrypted_and_then_signed(self, letter, other, encrypts):
        def sign(queue):
            return lambda body: (
                b"onward/1 key %b\n%b" % (hashlib.sha256(queue.encode() + body).hexdigest().encode(), body)
            )

        def encrypt(job_id, payload):
            return msgspec.json.encode(f"{job_id} {bytes(payload).hex()}")

        payload = encrypt(other.id, other.payload) if encrypts else bytes(other.payload)
        whole = replace(letter, id=other.id, payload=msgspec.Raw(payload), enqueued_at=other.enqueued_at)
        form = Form(letter, sign=sign, encrypt=encrypt if encrypts else None)

        (filled,) = form.fill([other.id], [bytes(other.payload)], other.enqueued_at)

        assert filled == seal(whole, sign=sign)
        assert filled.data == seal(whole, sign=sign).data

    @pytest.mark.parametrize(
        "text", ['","enqueued_at":0,"payload":{}', "\\", '\\"', ',"payload":', "é\u2028\x00", '{"id":""}']
    )
    def test_no_text_of_a_letter_is_taken_for_a_part_that_is_filled_in(self, text):
        letter = a_letter(
            namespace=text, queue=text, job=text, name=text, meta={text: text, "enqueued_at": 0, "payload": {}}
        )
        whole = replace(letter, id=text, payload=msgspec.Raw(b'{"payload":{},"id":""}'), enqueued_at=7)

        (filled,) = Form(letter).fill([text], [b'{"payload":{},"id":""}'], 7)

        assert filled.data == seal(whole).data

    def test_a_payload_that_is_too_large_is_refused(self):
        form = Form(a_letter(), limit=1000)

        form.fill(["a"], [b'"short"'], 1)
        with pytest.raises(PayloadTooLarge):
            form.fill(["a", "b"], [b'"short"', msgspec.json.encode("x" * 1000)], 1)


def test_more_than_is_ever_sealed_is_refused_before_it_is_parsed():
    body = b"x" * LARGEST

    with pytest.raises(EnvelopeError, match="bytes, and the limit is"):
        open_sealed(Sealed("id", "mail", body + b"x"), verify=lambda *_: pytest.fail("it was looked at"))
    with pytest.raises(PayloadTooLarge, match="67,108,864"):
        seal(a_letter(payload=msgspec.Raw(b'"%b"' % body)), limit=2 * LARGEST)
