"""Whatever is handed over: the documented error, in bounded time."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.base.clock import SECOND
from onward.job.envelope import Letter, seal
from tests.security.fuzzing import CLEAR, CORPUS, ENCRYPTION, ID, TARGETS

SEEDS = sorted(path for path in CORPUS.rglob("*") if path.is_file())
LETTER = Letter(id=ID, namespace="default", queue="mail", job="send", max_crashes=3, enqueued_at=1_700_000_000 * SECOND)
SEALED = seal(LETTER).data
ENCRYPTED = [path.read_bytes() for path in sorted((CORPUS / "encrypted").iterdir())]

WORDS = (
    "job dead queue enqueue prune config list show retry cancel replay purge "
    "--json --queue --state --limit --older-than --payload --delay --priority - -- @ {} 1e9"
)
SCHEMES = "sqlite:/// postgresql:// mysql://u:p@ redis:// redis+sentinel:// beanstalk:// servicebus://Endpoint=sb:// x"
DATES = "Mon, 01 Jan 2030 Tuesday 00:00:00 24:61 GMT +2500 -0000 99999 0 , : -"

words = st.sampled_from(WORDS.split())
command_lines = st.lists((words | st.text(max_size=8)).map(lambda word: word.encode("utf-8", "replace")), min_size=1)
schemes = st.sampled_from(SCHEMES.split())
settings_names = st.sampled_from(
    ["url", "namespace", "max_crashes", "default_retry", "retention", "max_payload", "imports"]
)


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_was_found_once_does_no_harm(path):
    TARGETS[path.parent.name](path.read_bytes())


def test_every_target_has_a_corpus():
    assert {path.parent.name for path in SEEDS} == set(TARGETS)


@pytest.mark.parametrize("target", TARGETS)
@given(data=st.binary(max_size=200))
def test_any_bytes(target, data):
    TARGETS[target](data)


@given(st.integers(0, len(SEALED)), st.integers(0, 40), st.binary(max_size=40))
def test_an_envelope_with_a_part_replaced(at, length, part):
    TARGETS["envelope"](SEALED[:at] + part + SEALED[at + length :])


@given(st.sampled_from(ENCRYPTED), st.integers(0, 160), st.integers(0, 40), st.binary(max_size=40))
def test_ciphertext_with_a_part_replaced(data, at, length, part):
    TARGETS["encrypted"](data[:at] + part + data[at + length :])


def test_what_was_encrypted_is_read_so_the_target_can_fail():
    enc, _, ciphertext = (CORPUS / "encrypted" / "payload").read_bytes().partition(b"\xff")
    letter = msgspec.structs.replace(LETTER, payload=msgspec.Raw(ciphertext), enc=enc.decode())

    assert bytes(ENCRYPTION.open(letter).payload) == CLEAR
    assert ENCRYPTION.read_result(ID, "mail", 1, (CORPUS / "encrypted" / "result").read_bytes()) == CLEAR


@pytest.mark.parametrize(
    ("start", "shown"),
    [
        (b"onward/1 k1 " + b"A" * 43 + b"=\n", b'"yes"'),
        (b"onward/\n", "<encrypted with key ?>"),
        (b"onward/1 k1 short\n", "<encrypted with key ?>"),
        (b"onward/1 k1 " + b"A" * 600 + b"=\n", "<encrypted with key ?>"),
        (b"onward/\n" * 3_000, "<encrypted with key ?>"),
        ((b"onward/1 k1 " + b"A" * 43 + b"=\n") * 3_000, "<encrypted with key ?>"),
    ],
    ids=["a signature", "no signature", "a short one", "a long one", "many lines", "many signatures"],
)
def test_a_result_is_shown_without_the_one_line_of_its_signature(start, shown):
    assert ENCRYPTION.read_result(ID, "mail", 1, start + b'"yes"') == shown


@given(st.recursive(st.binary(max_size=5), lambda inner: st.tuples(st.sampled_from([b"[", b'{"a":', b'"']), inner)))
def test_a_payload_that_is_nearly_json(parts):
    data = b""
    while isinstance(parts, tuple):
        data, parts = data + parts[0], parts[1]
    TARGETS["payload"](data + parts)


@given(command_lines)
def test_words_of_a_command(line):
    TARGETS["command_line"](b"\xff".join(line))


@given(schemes, st.text(max_size=40))
def test_nearly_a_url(scheme, rest):
    TARGETS["url"]((scheme + rest).encode("utf-8", "replace"))


@given(st.sampled_from(["http://", "https://", "//", ""]), st.text("[]@:./?#%\\\\0x7f1a-\tü", max_size=30))
def test_nearly_a_web_address(scheme, rest):
    TARGETS["web_address"]((scheme + rest).encode())


@given(st.lists(st.sampled_from(DATES.split())))
def test_nearly_a_date(parts):
    TARGETS["answer"](" ".join(parts).encode())


@given(st.lists(st.tuples(settings_names, st.text(max_size=20)), max_size=3))
def test_nearly_settings(pairs):
    TARGETS["settings"](b"\xff".join(word.encode("utf-8", "replace") for pair in pairs for word in pair))
