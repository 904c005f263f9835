"""Names that every backend can carry, and hints for those that were misspelt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.base import names
from onward.errors import InvalidName

CHECKS = [names.queue_name, names.job_name, names.namespace_name]


@pytest.mark.parametrize("name", ["mail", "a", "0", "Mail.High_2-b", "a" * 100])
def test_a_queue_may_be_called(name):
    assert names.queue_name(name) == name


@pytest.mark.parametrize("name", ["send", "_send", "shop.send", "shop:send-all", "a" * 200])
def test_a_job_may_be_called(name):
    assert names.job_name(name) == name


@pytest.mark.parametrize("name", ["default", "a", "team_1", "a" * 40])
def test_a_namespace_may_be_called(name):
    assert names.namespace_name(name) == name


@pytest.mark.parametrize("name", ["-mail", ".mail", "_mail", "a" * 101, "a/b", "a:b", "ma il"])
def test_a_queue_may_not_be_called(name):
    with pytest.raises(InvalidName, match="queue name"):
        names.queue_name(name)


@pytest.mark.parametrize("name", ["1send", "-send", "a" * 201, "a/b", "<lambda>", "se nd"])
def test_a_job_may_not_be_called(name):
    with pytest.raises(InvalidName, match="job name"):
        names.job_name(name)


@pytest.mark.parametrize("name", ["Default", "1a", "_a", "a-b", "a.b", "a" * 41, 'a"b', "a;drop"])
def test_a_namespace_may_not_be_called(name):
    with pytest.raises(InvalidName, match="namespace"):
        names.namespace_name(name)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", ["", " ", "a\n", "a\r\nput", "a\x00", "é", "١", "a\ud800", None, 5, b"mail", ["mail"]])
def test_nothing_may_be_called_what_a_line_protocol_would_choke_on(check, name):
    with pytest.raises(InvalidName) as raised:
        check(name)

    assert isinstance(raised.value, ValueError)


@given(st.text(st.characters()))
@pytest.mark.parametrize("check", CHECKS)
def test_a_name_that_passes_is_plain_ascii(check, name):
    try:
        check(name)
    except InvalidName as error:
        str(error).encode()  # the complaint can be stored and printed
        return

    assert name.isascii()
    assert name.isprintable()


@pytest.mark.parametrize("key", ["welcome:42", "a b", "é/ü", "1", "x" * 400, "\U0001f600"])
def test_a_key_is_any_printable_text(key):
    assert names.key(key, "unique_key") == key


@pytest.mark.parametrize("key", ["", "x" * 401, "a\nb", "a\x00", "\ud800", "\u2028", None, 42, b"key"])
def test_a_key_that_no_index_could_hold_is_refused(key):
    with pytest.raises(InvalidName, match="unique_key must be printable text of 1 to 400 characters"):
        names.key(key, "unique_key")


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("prioritee", ": did you mean 'priority'?"),
        ("quue", ": did you mean 'queue'?"),
        ("zzz", "; it knows priority, queue"),
    ],
)
def test_a_word_that_is_not_known_gets_a_hint(word, hint):
    assert names.suggestion(word, ["queue", "priority"]) == hint
