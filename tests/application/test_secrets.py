"""What is secret among the arguments of a job is shown nowhere that people look."""

import json
import logging
from dataclasses import asdict, dataclass

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward import ArgumentError, Discard, JobContext, OptionError, Secret
from onward.cli import main
from onward.handlers import TypedHandler
from onward.job.scrubbing import scrubber
from onward.job.secrets import MASK, masked
from onward.telemetry import Event
from onward.testing import assert_enqueued

CANARY = "canary-4242-4242"


@pytest.fixture
def shown(jobs, listen, caplog):
    """All that is shown of the jobs of this application."""
    heard = listen(jobs)
    caplog.set_level(logging.DEBUG)

    def everything():
        records = [asdict(record) | {"raw": b""} for record in jobs.list(limit=100)]
        letters = [asdict(letter) | {"raw": b""} for letter in jobs.dead_letters.list()]
        seen = [records, letters, heard(Event), [record.getMessage() for record in caplog.records], repr(jobs)]
        return repr(seen)

    return everything


class TestByType:
    def test_only_the_handler_sees_it(self, jobs, shown):
        got = []

        @jobs.job
        def charge(user: int, card: Secret[str], *, limit: Secret[int] | None = None) -> None:
            got.append((card.reveal(), limit and limit.reveal()))

        handle = charge.enqueue(7, Secret(CANARY), limit=Secret(1_000_000))
        jobs.drain()

        assert got == [(CANARY, 1_000_000)]
        assert jobs.get(handle.id).payload == {"user": 7, "card": "***", "limit": "***"}
        assert CANARY not in shown()

    @pytest.mark.promise("CVE-2020-17495", "CVE-2023-40712")
    def test_an_error_that_quotes_it_is_kept_without_it(self, jobs, shown):
        @jobs.job
        def charge(card: Secret[str], pin: Secret[int]) -> None:
            number = card.reveal()  # a local variable, which no traceback shows
            raise ValueError(f"{number} was declined, {number!r} with {pin.reveal()}") from OSError(number)

        handle = charge.enqueue(Secret(CANARY + "'"), Secret(987_654))
        jobs.drain()

        (error,) = jobs.get(handle.id).errors
        assert error.message == '*** was declined, "***" with ***'
        assert CANARY not in shown()
        assert "987654" not in shown()

    def test_nor_does_the_reason_of_a_dead_letter_show_it(self, jobs, shown):
        @jobs.job
        def charge(card: Secret[str]) -> None:
            raise Discard(f"{card.reveal()} is stolen")

        charge.enqueue(Secret(CANARY))
        jobs.drain()

        (letter,) = jobs.dead_letters.list()
        assert letter.reason == "*** is stolen"
        assert CANARY not in shown()

    def test_it_is_revealed_on_request(self, jobs):
        @jobs.job
        def charge(card: Secret[str]) -> None: ...

        handle = charge.enqueue(Secret(CANARY))

        assert jobs.get(handle.id).reveal() == {"card": CANARY}
        assert_enqueued(jobs, charge, Secret(CANARY))

    def test_it_can_be_enqueued_by_name(self, jobs, shown):
        handle = jobs.enqueue("elsewhere", {"user": 7, "card": Secret(CANARY)})

        record = jobs.get(handle.id)
        assert (record.payload, record.reveal()) == ({"user": 7, "card": "***"}, {"user": 7, "card": CANARY})
        assert CANARY not in shown()

    def test_it_is_masked_by_what_the_worker_alone_knows(self, open_app, store):
        jobs = open_app()
        sender = jobs if store == "memory" else open_app()  # which does not know the job yet
        handle = sender.enqueue("charge", {"card": CANARY, "user": 7})

        @jobs.job
        def charge(card: Secret[str], user: int) -> None:
            raise ValueError(f"{card.reveal()} was declined")

        jobs.drain()

        record = jobs.get(handle.id)
        assert record.payload == {"card": "***", "user": 7}
        assert record.errors[0].message == "*** was declined"

    def test_a_note_on_progress_is_kept_without_it(self, jobs):
        noted = []

        @jobs.job
        def charge(ctx: JobContext, card: Secret[str]) -> None:
            ctx.progress(0.5, f"charging {card.reveal()}")
            noted.append(jobs.get(ctx.id).progress.note)

        charge.enqueue(Secret(CANARY))
        jobs.drain()

        assert noted == ["charging ***"]

    def test_the_copy_of_a_dead_letter_keeps_it_from_sight_and_carries_it(self, open_app):
        jobs = open_app(dead_letter_queue="failed_jobs")

        @jobs.job
        def charge(card: Secret[str]) -> None:
            raise ValueError

        charge.enqueue(Secret(CANARY))
        assert jobs.process_once("default").status == "dead-lettered"

        (copy,) = jobs.list(queue="failed_jobs")
        assert copy.payload["payload"] == {"card": "***"}
        assert copy.reveal()["payload"] == {"card": CANARY}

    def test_a_refused_call_does_not_tell_it(self, jobs):
        @jobs.job
        def charge(card: Secret[int]) -> None: ...

        with pytest.raises(ArgumentError, match="the secret is not an int") as refused:
            charge.enqueue(Secret(CANARY))

        assert CANARY not in str(refused.value)


class TestRefusals:
    """What cannot be enqueued is told without what was not to be shown."""

    def test_an_object_that_would_come_back_as_text_is_not_quoted(self, jobs):
        @jobs.job
        def charge(options: dict) -> None: ...

        with pytest.raises(ArgumentError, match=r"charge: options=\*\*\* would come back as \*\*\*") as refused:
            charge.enqueue({"card": Secret(CANARY)})

        assert CANARY not in str(refused.value)

    @pytest.mark.parametrize("way", ["a call", "a name"])
    def test_nor_is_what_a_model_was_given(self, jobs, way):
        class Order(pydantic.BaseModel):
            card: Secret[str]
            number: int

            @pydantic.field_validator("card")
            @classmethod
            def check(cls, card):
                raise ValueError(f"{card.reveal()} is stolen")

        @jobs.job
        def charge(order: Order) -> None: ...

        enqueue = charge.enqueue if way == "a call" else lambda order: jobs.enqueue("charge", {"order": order})
        with pytest.raises(ArgumentError, match=r"number: .*required") as refused:
            enqueue({"card": CANARY})

        assert CANARY not in str(refused.value)

    def test_nor_is_what_a_handler_was_given(self, open_app):
        class Payment(pydantic.BaseModel):
            card: Secret[str]
            number: int

        class Till(TypedHandler):
            payload_type = Payment

        jobs = open_app(handlers={"till": Till()}, queue_handlers={"default": ["till"]})

        with pytest.raises(ArgumentError, match="number") as refused:
            jobs.define("till", {"card": CANARY}).dispatch()

        assert CANARY not in str(refused.value)

    @pytest.mark.parametrize("key", [lambda card: card.reveal(), "{order.card._value}", lambda order: f"{order}"])
    def test_no_key_is_made_of_it(self, jobs, key):
        @dataclass
        class Order:
            card: Secret[str]

        @jobs.job(unique_key=key)
        def charge(card: Secret[str], order: Order) -> None: ...

        with pytest.raises(ArgumentError, match="puts a secret into the key") as refused:
            charge.enqueue(Secret(CANARY), Order(Secret(CANARY)))

        assert CANARY not in str(refused.value)

    def test_metadata_holds_none(self, jobs):
        with pytest.raises(OptionError, match="meta must hold plain values"):
            jobs.enqueue("elsewhere", meta={"a": [Secret(CANARY)]})

    def test_a_dumped_pydantic_model_does_not_show_it(self):
        class Order(pydantic.BaseModel):
            card: Secret[str]

        order = Order(card=Secret(CANARY))

        assert CANARY not in f"{order!r} {order.model_dump()} {order.model_dump_json()}"
        assert order.model_dump(round_trip=True) == {"card": CANARY}
        assert Order.model_validate({"card": CANARY}) == order


class TestResults:
    @pytest.mark.parametrize("kind", ["a secret", "a list", "a dataclass", "a model"])
    def test_a_secret_is_no_result_and_the_job_is_completed(self, jobs, kind, shown):
        @dataclass
        class Receipt:
            card: Secret[str]

        class Model(pydantic.BaseModel):
            card: Secret[str]

        card = Secret(CANARY)
        results = {"a secret": card, "a list": [{"a": card}], "a dataclass": Receipt(card), "a model": Model(card=card)}

        @jobs.job
        def charge(card: Secret[str]):
            return results[kind]

        handle = charge.enqueue(card)
        jobs.drain()

        record = jobs.get(handle.id)
        assert (record.state, record.result) == ("completed", None)
        assert record.reason.startswith("no result: TypeError: the result holds a Secret, and results are shown")
        assert CANARY not in shown()

    def test_what_a_handler_returns_in_the_clear_is_its_word(self, jobs):
        @jobs.job
        def charge(card: Secret[str]) -> str:
            return card.reveal()

        handle = charge.enqueue(Secret(CANARY))
        jobs.drain()

        assert handle.result(0) == CANARY


class TestLimits:
    @pytest.mark.parametrize("secret", ["1", "12", "abc"])
    def test_a_text_is_not_turned_into_stars_by_a_short_secret(self, jobs, secret):
        @jobs.job
        def check(pin: Secret[str]) -> None:
            raise ValueError(f"pin {secret} of abcdef123")

        handle = check.enqueue(Secret(secret))
        jobs.drain()

        assert jobs.get(handle.id).errors[0].message == f"pin {secret} of abcdef123"
        assert jobs.get(handle.id).payload == {"pin": "***"}

    @pytest.mark.parametrize("before", range(3_950, 4_110, 7))
    def test_of_a_secret_at_the_edge_of_a_message_nothing_is_kept(self, jobs, before):
        @jobs.job
        def charge(card: Secret[str]) -> None:
            raise Discard("x" * before + card.reveal()) from ValueError("y" * (before - 3_100) + card.reveal())

        handle = charge.enqueue(Secret(CANARY))
        jobs.drain()

        record = jobs.get(handle.id)
        assert not any("can" in text for text in (record.reason, record.errors[0].message))
        assert f"y{CANARY[:3]}" not in record.errors[0].traceback

    def test_nor_of_one_in_a_text_of_any_length(self, jobs):
        @jobs.job
        def charge(card: Secret[str]) -> None:
            raise ValueError(card.reveal() * 100_000)

        handle = charge.enqueue(Secret(CANARY))
        jobs.drain()

        assert "can" not in jobs.get(handle.id).errors[0].message

    def test_of_what_a_program_says_last_nothing_is_kept_either(self, open_app):
        jobs = open_app(handlers={"shell": {"allow": ["/bin/sh"]}}, queue_handlers={"default": ["shell"]})
        for after in range(484, 502, 3):
            script = f'printf "%s%s" "$0" {"z" * after} >&2; exit 1'
            handle = jobs.define("shell", ["/bin/sh", "-c", script, Secret(CANARY)]).dispatch()
            jobs.drain()

            record = jobs.get(handle.id)
            assert record.payload == ["/bin/sh", "-c", script, "***"]
            assert f"{CANARY[-1]}z" not in record.errors[0].message
            assert record.errors[0].message.startswith("/bin/sh ended with code 1: ")


class TestByName:
    @pytest.mark.promise("CVE-2017-17836", "CVE-2022-27949", "S45")
    def test_telling_names_are_masked_at_any_depth(self, jobs, shown):
        @jobs.job
        def call(url: str, options: dict, db_password: str = "") -> None:
            raise ValueError(f"{url}: {options} {db_password}")

        options = {"headers": {"Authorization": CANARY, "X-Api-Key": CANARY + "1"}, "parts": [{"access_token": CANARY}]}
        handle = call.enqueue("https://example.org", options, db_password="p" + CANARY)
        jobs.drain()

        assert jobs.get(handle.id).payload == {
            "url": "https://example.org",
            "options": {"headers": {"Authorization": "***", "X-Api-Key": "***"}, "parts": [{"access_token": "***"}]},
            "db_password": "***",
        }
        assert CANARY not in shown()

    def test_what_is_not_given_is_not_masked(self, jobs):
        handle = jobs.enqueue("elsewhere", {"token": None, "tokens": 3})

        assert jobs.get(handle.id).payload == {"token": None, "tokens": 3}

    def test_nor_does_the_command_line_show_it(self, open_app, url, store, capsys, monkeypatch):
        if store == "memory":
            pytest.skip("another program sees nothing of it")
        jobs = open_app()

        @jobs.job
        def login(password: str) -> dict:
            return {"token": password}

        handle = login.enqueue(CANARY)
        jobs.drain()
        monkeypatch.setenv("ONWARD_URL", url)

        for words in (["job", "show", handle.id], ["job", "show", handle.id, "--json"], ["job", "list", "--json"]):
            assert main(words) == 0
        out = capsys.readouterr().out
        assert CANARY not in out
        told = json.loads(out.splitlines()[-1])
        assert (told["payload"], told["result"]) == (None, {"token": "***"})


class TestByShape:
    @pytest.mark.parametrize(
        ("said", "kept"),
        [
            ("postgresql://app:hunter2@db/jobs is away", "postgresql://app:***@db/jobs is away"),
            ("redis://:hunter2@cache:6379/0", "redis://:***@cache:6379/0"),
            ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer ***"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_1 is expired", "*** is expired"),
            ("AKIAIOSFODNN7EXAMPLE may not", "*** may not"),
            ("sk_live_abcdefgh1234", "***"),
            ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", "***"),
            ("http://example.org:8080/a@b is fine", "http://example.org:8080/a@b is fine"),
        ],
    )
    def test_an_error_is_kept_without_what_looks_like_a_credential(self, jobs, said, kept):
        @jobs.job
        def work() -> None:
            raise ValueError(said)

        handle = work.enqueue()
        jobs.drain()

        (error,) = jobs.get(handle.id).errors
        assert error.message == kept
        assert error.traceback.endswith(f"ValueError: {kept}\n")


_NAMES = st.sampled_from(
    [
        *("password", "PassWord", "db_password", "pass_word_", "X-Api-Key", "Private Key", "authorization ", "passwd-"),
        *("to\N{KELVIN SIGN}en", "sec\\ret", "secr\N{LATIN SMALL LETTER E WITH ACUTE}t", "tokens", "id", "kind"),
    ]
)
_VALUES = st.one_of(st.just("hunter22"), st.dictionaries(_NAMES, st.just("hunter22"), min_size=1))


@given(
    payload=st.dictionaries(_NAMES, _VALUES),
    spaced=st.booleans(),
)
def test_the_quick_look_misses_no_secret(payload, spaced):
    """An error text is scrubbed of every value that a record would mask, whichever way its name is written."""
    encoded = json.dumps(payload, ensure_ascii=spaced, separators=(" , ", " : ") if spaced else (",", ":")).encode()

    shown = scrubber(encoded)("hunter22")

    assert (shown == MASK) == (MASK in str(masked(payload)))
