"""The audit trail through the API: who is named, what is kept of a reason, what is signed, and what is told besides."""

import logging
import sqlite3
from contextlib import closing

import pytest

from onward import JobContext, Limit, NoDelay, Secret
from onward.client import auditing
from onward.errors import OptionError, Unsupported
from onward.security.key_ring import KeyRing
from onward.telemetry import OperatorActed

pytestmark = pytest.mark.promise("S136")

ANN = {"by": "ann@host", "reason": "it is late"}


@pytest.fixture
def send(jobs):
    @jobs.job
    def send(user_id: int = 0) -> None: ...

    return send


def told(jobs, **query):
    return [(entry.act, entry.job_id, entry.ref) for entry in jobs.audit(**query)]


class TestActs:
    def test_a_call_without_a_person_leaves_no_entry(self, jobs, send):
        job = send.using(delay="1h").enqueue()
        jobs.retry(job.id)
        jobs.cancel(job.id, "no")
        jobs.retry(job.id)
        jobs.pause("mail")
        jobs.resume("mail")

        assert jobs.audit() == []

    def test_each_act_on_a_job_names_who_did_it_and_why(self, jobs, send, clock):
        job = send.using(delay="1h").enqueue()
        jobs.retry(job.id, **ANN)
        clock.advance(1)
        job.cancel("wrong user", by="bob")
        clock.advance(1)
        jobs.retry(job.id, by="carl")

        assert [(each.act, each.who, each.detail) for each in jobs.audit(job=job.id)] == [
            ("retry", "carl", ""),
            ("cancel", "bob", "wrong user"),
            ("retry", "ann@host", "it is late"),
        ]
        assert jobs.audit()[0].at == clock.now()

    def test_acts_on_queues_keys_and_dead_letters_are_entries(self, jobs, clock):
        @jobs.job(max_retries=0)
        def work(ctx: JobContext) -> None:
            raise ConnectionError

        @jobs.job
        def pay() -> None: ...

        dead = [work.enqueue().id for _ in range(2)]
        pay.using(idempotency_key="order:42").enqueue()
        jobs.drain()
        acts = [
            lambda: jobs.pause("mail", **ANN),
            lambda: jobs.resume("mail", **ANN),
            lambda: jobs.forget("order:42", job=pay, **ANN),
            lambda: jobs.dead_letters.replay(dead[:1], **ANN),
            lambda: jobs.dead_letters.purge(dead[1:], **ANN),
        ]
        for act in acts:
            assert act()
            clock.advance(1)

        assert told(jobs) == [
            ("purge", "", f"{dead[1]}-{dead[1]}"),
            ("replay", dead[0], ""),
            ("forget-key", "", jobs.client.letters.idempotency_key("order:42", "pay")),
            ("resume", "", "mail"),
            ("pause", "", "mail"),
        ]
        assert {entry.detail for entry in jobs.audit()} == {"it is late"}

    def test_acts_on_limits_are_entries(self, jobs, clock):
        @jobs.job(limit=Limit(running=3))
        def render() -> None: ...

        jobs.limits.set("render", running=5, **ANN)
        clock.advance(1)
        jobs.limits.shut("render", **ANN)
        clock.advance(1)
        jobs.limits.open("render", **ANN)
        clock.advance(1)
        jobs.limits.clear("render", **ANN)

        acts = ["limit-clear", "limit-open", "limit-shut", "limit-set"]
        assert told(jobs) == [(act, "", "job:render") for act in acts]

    def test_acts_on_schedules_are_entries(self, jobs, send, clock):
        jobs.schedules.create("nightly", "0 3 * * *", send.call(1), **ANN)
        run = []
        for act in (
            lambda: jobs.schedules.update("nightly", cron="0 4 * * *", **ANN),
            lambda: jobs.schedules.pause("nightly", **ANN),
            lambda: jobs.schedules.resume("nightly", **ANN),
            lambda: run.append(jobs.schedules.run_now("nightly", **ANN)),
            lambda: jobs.schedules.delete("nightly", **ANN),
        ):
            clock.advance(1)
            act()

        assert told(jobs, ref="nightly") == [
            ("delete-schedule", "", "nightly"),
            ("run-schedule", run[0].id, "nightly"),
            ("resume-schedule", "", "nightly"),
            ("pause-schedule", "", "nightly"),
            ("update-schedule", "", "nightly"),
            ("create-schedule", "", "nightly"),
        ]

    def test_acts_on_flows_and_signals_are_entries(self, jobs, send, clock):
        flow = jobs.chain(send.call(1), send.call(2)).enqueue()
        waiting = send.enqueue()
        assert jobs.signal(waiting.id, "paid", 1, **ANN)
        clock.advance(1)
        assert flow.cancel("a mistake", by="bob")
        clock.advance(1)
        assert flow.retry(by="bob") == 2

        assert told(jobs) == [("retry-flow", "", flow.id), ("cancel-flow", "", flow.id), ("signal", waiting.id, "paid")]
        assert [each.detail for each in jobs.audit(who="bob")] == ["", "a mistake"]

    def test_a_job_that_could_not_be_changed_has_no_entry(self, jobs, send):
        job = send.enqueue()
        jobs.drain()

        assert jobs.cancel(job.id, by="ann") is None
        assert not jobs.retry(job.id, by="ann")
        assert jobs.audit() == []


class TestWhatIsKept:
    def test_the_secrets_of_a_job_are_not_in_a_reason(self, jobs):
        @jobs.job
        def login(token: Secret[str]) -> None: ...

        one, other = (login.using(delay="1h").enqueue(Secret(word)) for word in ("hunter2hunter2", "swordfish-7"))
        jobs.retry(one.id, by="ann", reason="its token hunter2hunter2 at https://ann:pw123456@example.org")
        jobs.cancel(other.id, "swordfish-7 leaked", by="ann")

        assert {each.detail for each in jobs.audit()} == {
            "its token *** at https://ann:***@example.org",
            "*** leaked",
        }

    def test_a_long_reason_is_cut(self, jobs):
        jobs.pause("mail", by="ann", reason="x" * 501)

        assert jobs.audit()[0].detail == "x" * 499 + "…"

    @pytest.mark.parametrize("by", ["", "  ", "a\nb", "x" * 201, 7])
    def test_a_name_that_names_no_person_is_refused(self, jobs, by):
        with pytest.raises(OptionError, match="by must say who acts"):
            jobs.pause("mail", by=by)
        assert jobs.queues() == []

    def test_a_reason_without_a_person_is_refused(self, jobs, send):
        with pytest.raises(OptionError, match="give by="):
            jobs.retry(send.enqueue().id, reason="because")
        with pytest.raises(OptionError, match="reason must be text"):
            jobs.pause("mail", by="ann", reason=7)

    def test_bad_questions_say_what_is_wrong(self, jobs):
        with pytest.raises(OptionError, match="did you mean 'retry'"):
            jobs.audit(act="retyr")
        with pytest.raises(OptionError, match="before is the place of an entry"):
            jobs.audit(before="yesterday")

    def test_pages_go_on_where_the_last_one_ended(self, jobs, clock):
        for number in range(5):
            (jobs.resume if number % 2 else jobs.pause)("mail", by=f"ann{number}")
            clock.advance(1)
        first = jobs.audit(limit=2)
        rest = jobs.audit(limit=9, before=first[-1].place)

        assert [each.who for each in (*first, *rest)] == ["ann4", "ann3", "ann2", "ann1", "ann0"]

    def test_a_broker_alone_keeps_no_trail(self, jobs, monkeypatch):
        monkeypatch.setattr(jobs._operators.auditor, "_keeps", False)

        with pytest.raises(Unsupported, match="keeps no audit trail"):
            jobs.audit()


class TestASecondWitness:
    def test_each_entry_is_a_line_of_a_log_of_its_own(self, jobs, send, caplog):
        job = send.using(delay="1h").enqueue()
        with caplog.at_level(logging.INFO, "onward.audit"):
            jobs.retry(job.id, **ANN)
            jobs.retry(job.id, **ANN)

        (line,) = [each for each in caplog.records if each.name == "onward.audit"]
        assert line.getMessage() == f"ann@host: retry {job.id}: it is late"
        assert (line.who, line.act, line.job_id) == ("ann@host", "retry", job.id)

    def test_each_entry_is_an_event(self, jobs, listen):
        heard = listen(jobs)
        jobs.pause("mail", **ANN)
        jobs.pause("mail", **ANN)

        (event,) = heard(OperatorActed)
        assert (event.who, event.act, event.id, event.ref, event.detail) == (
            "ann@host",
            "pause",
            "",
            "mail",
            "it is late",
        )

    def test_there_is_no_line_for_an_act_that_the_store_refused(self, jobs, send, caplog, monkeypatch):
        def refuse(*_, **__):
            raise ConnectionError

        job = send.using(delay="1h").enqueue()
        monkeypatch.setattr(jobs.backend, "retry", refuse)
        with caplog.at_level(logging.INFO, "onward.audit"), pytest.raises(ConnectionError):
            jobs.retry(job.id, **ANN)

        assert [each for each in caplog.records if each.name == "onward.audit"] == []


@pytest.mark.promise("S137")
class TestSignatures:
    @pytest.fixture
    def store(self):
        return "sqlite"

    @pytest.fixture
    def ring(self):
        return KeyRing.parse("2030:" + "k" * 43)

    @pytest.fixture
    def alter(self, url):
        def alter(sql):
            with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
                connection.execute(sql)

        return alter

    def test_an_entry_is_verified_where_there_is_a_key(self, open_app, ring):
        jobs = open_app(signing_keys=ring)
        jobs.pause("mail", **ANN)
        job = jobs.enqueue("send", {}, delay="1h")
        jobs.retry(job.id, **ANN)

        assert [entry.trust for entry in jobs.audit()] == ["verified", "verified"]
        assert [entry.trust for entry in open_app().audit()] == ["unknown", "unknown"]

    @pytest.mark.parametrize(
        "change", ["who = 'bob'", "act = 'resume'", "at = at - 1", "detail = ''", "ref = 'news'", "job_id = 'another'"]
    )
    def test_an_entry_that_was_changed_is_shown_as_altered(self, open_app, ring, alter, change):
        jobs = open_app(signing_keys=ring)
        jobs.pause("mail", **ANN)
        alter(f"UPDATE onward_audit SET {change}")

        assert [entry.trust for entry in jobs.audit()] == ["altered"]

    def test_the_signature_of_one_job_is_none_for_another(self, open_app, ring, alter):
        jobs = open_app(signing_keys=ring)
        for _ in range(2):
            jobs.retry(jobs.enqueue("send", {}, delay="1h").id, **ANN)
        alter("UPDATE onward_audit SET signature = (SELECT max(signature) FROM onward_audit)")

        assert sorted(entry.trust for entry in jobs.audit()) == ["altered", "verified"]

    def test_an_entry_without_a_signature_is_no_more_than_that_unless_one_is_required(self, open_app, ring):
        open_app().pause("mail", **ANN)

        assert open_app(signing_keys=ring).audit()[0].trust == "unsigned"
        assert open_app(signing_keys=ring, signing="require").audit()[0].trust == "altered"
        assert open_app().audit()[0].trust == "unsigned"


class TestCosts:
    @pytest.fixture
    def store(self):
        return "sqlite"

    def test_no_statement_of_an_act_without_a_person_names_the_trail(self, open_app):
        jobs = open_app()
        jobs.connect()
        statements = []
        with jobs.backend._connections.tidying() as writer, jobs.backend._reading() as reading:
            for connection in (writer, reading._connection):
                connection.set_trace_callback(statements.append)

        @jobs.job(max_retries=1, retry=NoDelay())
        def work(ctx: JobContext) -> None:
            if ctx.attempt == 1:
                raise ConnectionError

        work.enqueue()
        jobs.drain()
        job = work.using(delay=60).enqueue()
        jobs.retry(job.id)
        jobs.cancel(job.id)
        jobs.retry(job.id)
        jobs.pause("mail")
        jobs.resume("mail")
        jobs.get(job.id)

        assert len(statements) > 10
        assert [sql for sql in statements if "onward_audit" in sql] == []

    def test_an_act_with_a_person_is_one_transaction(self, open_app):
        jobs = open_app()
        job = jobs.enqueue("send", {}, delay="1h")
        statements = []
        with jobs.backend._connections.tidying() as writer:
            writer.set_trace_callback(statements.append)
        jobs.retry(job.id, by="ann")

        words = [sql.split()[0] for sql in statements]
        assert (words[0], words[-1], words.count("BEGIN"), words.count("COMMIT")) == ("BEGIN", "COMMIT", 1, 1)
        assert any("onward_audit" in sql for sql in statements[1:-1])


def test_the_bounds_of_texts_are_those_of_the_columns():
    assert (auditing.LONGEST_NAME, auditing.LONGEST_DETAIL) == (200, 500)
