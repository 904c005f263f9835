"""`onward enqueue`: one job from the command line, or many from a file."""

import json

import pytest

from onward.job.states import State


def test_it_prints_the_id_of_a_job_that_is_in_the_store(onward, jobs):
    ran = onward("enqueue", "welcome", "user=42", "lang=de")

    record = jobs.get(ran.out.strip())
    assert ran.code == 0
    assert (record.job, record.queue, record.payload) == ("welcome", "default", {"user": 42, "lang": "de"})


NOTE = "note: the job went to the queue 'default': its own queue is known with --app only; --queue names another\n"


def test_a_queue_that_was_not_named_is_told(onward, jobs, type_in):
    assert onward("enqueue", "welcome").err == NOTE
    assert onward("enqueue", "welcome", "--json").err == NOTE
    type_in("{}\n{}\n")
    assert onward("enqueue", "welcome", "--many", "-").err == NOTE + "enqueued 2 jobs\n"


def test_there_is_no_such_note_where_the_queue_is_known(onward, shop, url, jobs):
    ran = onward("enqueue", "welcome", "user=1", "--app", shop(url))

    assert (ran.err, jobs.get(ran.out.strip()).queue) == ("", "mail")
    assert onward("enqueue", "welcome", "--queue", "mail").err == ""
    assert onward("enqueue", "welcome", "--quiet").err == ""


def test_the_first_job_creates_the_store(onward, url, tmp_path):
    assert onward("enqueue", "welcome").code == 0
    assert (tmp_path / "jobs.db").exists()


@pytest.mark.parametrize(
    ("pair", "payload"),
    [
        ("n=1", {"n": 1}),
        ("n=-1.5", {"n": -1.5}),
        ("n=123456789012345678901234567890", {"n": 123456789012345678901234567890}),
        ("n=1e400", {"n": "1e400"}),
        ("n=NaN", {"n": "NaN"}),
        ("zip=00123", {"zip": "00123"}),
        ("on=true", {"on": True}),
        ("on=True", {"on": "True"}),
        ("none=null", {"none": None}),
        ('quoted="42"', {"quoted": "42"}),
        ("list=[1]", {"list": "[1]"}),
        ("text=a=b", {"text": "a=b"}),
        ("empty=", {"empty": ""}),
    ],
)
def test_a_value_is_a_json_scalar_or_text(onward, jobs, pair, payload):
    job_id = onward("enqueue", "x", pair).out.strip()

    assert jobs.get(job_id).payload == payload


def test_pairs_may_stand_on_both_sides_of_an_option(onward, jobs):
    job_id = onward("enqueue", "x", "a=1", "--queue", "mail", "b=2").out.strip()

    assert (jobs.get(job_id).queue, jobs.get(job_id).payload) == ("mail", {"a": 1, "b": 2})


def test_the_payload_may_be_json(onward, jobs):
    job_id = onward("enqueue", "shell", "--payload", '["/bin/true", "-v"]').out.strip()

    assert jobs.get(job_id).payload == ["/bin/true", "-v"]


@pytest.mark.parametrize("words", [["-"], ["--payload", "-"]])
def test_the_payload_may_come_from_stdin(onward, jobs, type_in, words):
    type_in('{"user": 42}\n')

    job_id = onward("enqueue", "welcome", *words).out.strip()

    assert jobs.get(job_id).payload == {"user": 42}


def test_every_option_reaches_the_job(onward, jobs):
    job_id = onward(
        *("enqueue", "welcome", "--queue", "mail", "--delay", "1h 30m", "--priority", "-5", "--max-retries", "3"),
        *("--expires", "2d", "--meta", "tenant=7", "--meta", "who=ada"),
    ).out.strip()

    record = jobs.get(job_id)
    assert (record.queue, record.priority, record.max_retries) == ("mail", -5, 3)
    assert (record.state, record.meta) == (State.SCHEDULED, {"tenant": 7, "who": "ada"})
    assert round((record.available_at - record.enqueued_at).total_seconds()) == 5400


def test_a_time_with_a_zone_is_when_it_runs(onward, jobs):
    job_id = onward("enqueue", "welcome", "--at", "2040-01-01T12:00+02:00").out.strip()

    assert jobs.get(job_id).available_at.isoformat() == "2040-01-01T10:00:00+00:00"


def test_a_taken_unique_key_answers_with_the_job_that_has_it(onward, url):
    first = onward("enqueue", "welcome", "--unique-key", "42")

    second = onward("enqueue", "welcome", "--unique-key", "42", "--json")

    assert second.json == [{"id": first.out.strip(), "created": False}]
    assert "nothing was enqueued: the live job" in second.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--at", "2030-01-01T12:00"], "no time zone"),
        (["--at", "noon"], "2030-01-31T12:00Z"),
        (["--delay", "soon"], "write it as '90s'"),
        (["--delay", "1h", "--at", "2030-01-01T12:00Z"], "delay or at, not both"),
        (["--priority", "101"], "from -100 to 100"),
        (["--priority", "high"], "--priority"),
        (["--queue", "a b"], "queue name 'a b' is not allowed"),
        (["--payload", "{"], "--payload is not JSON"),
        (["--payload", "{}", "a=1"], "give one of"),
        (["nonsense"], "'nonsense' is not key=value"),
        (["--meta", "nonsense"], "'nonsense' is not key=value"),
        (["--timeout", "5"], "--wait"),
        (["--many", "no-such-file"], "no-such-file cannot be read: No such file"),
        (["--many", "-", "a=1"], "leave pairs"),
        (["--many", "-", "--wait"], "--wait"),
        (["--many", "-", "--unique-key", "k"], "leave the key out"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error_that_says_so(onward, jobs, words, complaint):
    ran = onward("enqueue", "welcome", *words)

    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err
    assert sum(jobs.counts().values()) == 0


def test_a_payload_that_is_too_large_names_the_limit(onward, url):
    ran = onward("enqueue", "x", f"text={'x' * 300_000}")

    assert ran.code == 2
    assert "max_payload" in ran.err


class TestMany:
    def test_every_line_is_a_job_and_every_id_is_printed(self, onward, jobs, tmp_path):
        (tmp_path / "users").write_text("".join(f'{{"user": {n}}}\n' for n in range(1_201)) + "\n\n")

        ran = onward("enqueue", "welcome", "--many", "users", "--queue", "mail")

        ids = ran.out.split()
        assert (ran.code, ran.err) == (0, "enqueued 1,201 jobs\n")
        assert len(set(ids)) == 1_201 == jobs.counts("mail")[State.AVAILABLE]
        assert [jobs.get(job_id).payload["user"] for job_id in (ids[0], ids[500], ids[-1])] == [0, 500, 1200]

    def test_they_may_come_from_stdin(self, onward, url, type_in):
        type_in('{"user": 1}\n{"user": 2}')

        assert [line["created"] for line in onward("enqueue", "welcome", "--many", "-", "--json").json] == [True, True]

    def test_a_bad_line_is_named_with_what_was_enqueued_before_it(self, onward, jobs, type_in):
        type_in("{}\n" * 600 + "oops\n" + "{}\n")

        ran = onward("enqueue", "welcome", "--many", "-")

        assert ran.code == 2
        assert ran.err.startswith("enqueued 500 jobs\nerror: line 601 is not JSON")
        assert len(ran.out.split()) == 500 == jobs.counts()[State.AVAILABLE]

    def test_no_line_is_nothing(self, onward, url, type_in):
        type_in("\n")

        assert onward("enqueue", "welcome", "--many", "-").code == 6


class TestWithAnApplication:
    def test_arguments_are_checked_against_the_signature(self, onward, shop, url):
        ran = onward("--app", shop(url), "enqueue", "welcome", "user=x")

        assert ran.code == 2
        assert "Expected `int`, got `str`" in ran.err

    def test_so_is_every_line_of_many(self, onward, shop, url, type_in):
        type_in('{"user": 1}\n{"user": "x"}\n')

        ran = onward("--app", shop(url), "enqueue", "welcome", "--many", "-")

        assert ran.code == 2
        assert "line 2: welcome: Expected `int`" in ran.err

    def test_the_definition_decides_what_is_not_said(self, onward, shop, url, jobs):
        job_id = onward("enqueue", "welcome", "user=42", "--app", shop(url)).out.strip()

        assert (jobs.get(job_id).queue, jobs.get(job_id).max_retries) == ("mail", 4)

    def test_the_command_line_says_where(self, onward, shop, url, jobs, tmp_path):
        app = shop("sqlite:///never.db")

        job_id = onward("enqueue", "welcome", "user=42", "--app", app, "--url", url).out.strip()

        assert (jobs.get(job_id).queue, jobs.get(job_id).max_retries) == ("mail", 4)
        assert not (tmp_path / "never.db").exists()

    def test_and_in_which_namespace(self, onward, shop, url, open_app):
        job_id = onward("enqueue", "welcome", "user=42", "--app", shop(url), "--namespace", "berlin").out.strip()

        assert open_app(namespace="berlin").get(job_id).queue == "mail"
        assert open_app().get(job_id) is None

    def test_a_job_it_does_not_have_is_an_error_with_a_suggestion(self, onward, shop, url):
        ran = onward("--app", shop(url), "enqueue", "welcom", "user=42")

        assert ran.code == 2
        assert "did you mean 'welcome'?" in ran.err


class TestWaiting:
    """On ``sync://`` a job has ended when it is enqueued, so there is no wait."""

    def test_the_result_is_printed_as_json(self, onward, shop):
        ran = onward("--app", shop("sync://"), "enqueue", "welcome", "user=42", "--wait")

        assert ran.code == 0
        assert json.loads(ran.out) == "user 42 welcomed in en"

    def test_for_machines_with_the_id(self, onward, shop):
        (line,) = onward("--app", shop("sync://"), "enqueue", "welcome", "user=42", "--wait", "--json").json

        assert (line["created"], line["result"], len(line["id"])) == (True, "user 42 welcomed in en", 32)

    def test_a_job_that_dies_is_a_failure_that_says_why(self, onward, shop):
        ran = onward("--app", shop("sync://"), "enqueue", "refuse", "--max-retries", "0", "why=no", "--wait")

        assert (ran.code, ran.out) == (1, "")
        assert "RuntimeError: no" in ran.err

    def test_waiting_too_long_says_that_the_job_goes_on(self, onward, url):
        ran = onward("enqueue", "welcome", "--wait", "--timeout", "0")

        assert ran.code == 1
        assert "it goes on" in ran.err
