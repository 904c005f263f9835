"""A few jobs are written out as rows, many as JSON: both store the same."""

import pytest
from msgspec.structs import replace

from onward.backends.mysql import enqueueing
from onward.backends.mysql.transaction import Transaction
from onward.testing.contract.builders import a_claim, some_envelopes

HOSTILE = [b"it's", b"\\", b"\\'", b"'; DROP TABLE onward_jobs; --", b"%s %d %%", b"\x00\xff\xc3", b":rows :now", b""]


@pytest.fixture
def asked(monkeypatch):
    """The names of statements that were sent."""
    ask, names = Transaction.ask, []
    monkeypatch.setattr(Transaction, "ask", lambda tx, name, **given: (names.append(name), ask(tx, name, **given))[1])
    return names


@pytest.mark.parametrize("most", [0, 100])
def test_what_is_stored_comes_back_byte_for_byte(backend, monkeypatch, asked, most):
    monkeypatch.setattr(enqueueing, "_FEW", most)
    plain = some_envelopes(len(HOSTILE))
    envelopes = [replace(each, data=data, job="it's \\ é 🙂") for each, data in zip(plain, HOSTILE, strict=True)]

    assert all(answer.created for answer in backend.enqueue(envelopes))

    assert asked == ["enqueue_few" if most else "enqueue"]
    claimed = [lease.envelope for lease in backend.claim(a_claim(limit=100))]
    assert [(each.id, each.data) for each in claimed] == [(each.id, each.data) for each in envelopes]
    assert {backend.get(each.id).job for each in envelopes} == {"it's \\ é 🙂"}


@pytest.mark.parametrize(
    "other",
    [
        {"delay": 60},
        {"not_before": 1},
        {"expires_at": 2**50},
        {"idempotency_key": "k"},
        {"single_instance": "s"},
        {"lane": "l/1"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_one_that_is_not_plain_takes_the_others_along(backend, asked, other):
    first, second = some_envelopes(2)
    second = replace(second, **other)

    backend.enqueue([first, second])

    assert asked == ["enqueue"]
    assert backend.counts()["available"] + backend.counts()["scheduled"] == 2


def test_one_of_a_few_that_is_there_already_does_not_keep_the_others_out(backend):
    envelopes = some_envelopes(3)
    backend.enqueue(envelopes[:1])

    assert [answer.created for answer in backend.enqueue(envelopes)] == [False, True, True]
    assert backend.counts()["available"] == 3
