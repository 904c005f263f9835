"""`onward check-deploy` and `onward job signatures`."""

import json

import pytest

NEW = """\
from onward import Onward

jobs = Onward({url!r})

@jobs.job(queue="mail")
def welcome(user: int, lang: str) -> None:
    raise RuntimeError("no handler runs")
"""
SAME = NEW.replace("lang: str)", 'lang: str = "en")')


@pytest.fixture
def waiting(jobs):
    """A job of the last release."""
    return jobs.enqueue("welcome", {"user": 7}, queue="mail", delay="3d")


def test_people_read_what_cannot_run_and_what_to_do(onward, shop, url, waiting):
    ran = onward("check-deploy", shop(url, NEW))

    assert ran.code == 1
    first, *rest = ran.out.splitlines()
    assert first == "missing_argument  welcome  `welcome(user)` was enqueued without `lang`, which this build requires"
    told = dict(line.split(maxsplit=1) for line in rest[:3])
    assert told["do"].endswith("or drain first (1 job, the last due in 2 d)")
    assert told["jobs"].startswith("1, the oldest enqueued ")
    assert told["ids"] == waiting.id
    assert rest[3] == 'as in    {"user":7}'
    assert ran.err == "1 job checked; this build cannot run 1\n"


def test_a_job_that_is_due_says_for_how_long(onward, shop, url, jobs):
    jobs.enqueue("welcome", {"user": 7}, queue="mail")

    assert ", due for " in onward("check-deploy", shop(url, NEW)).out


def test_machines_get_one_line_a_problem(onward, shop, url, waiting):
    (problem,) = onward("check-deploy", shop(url, NEW), "--json", "--quiet").json

    assert (problem["code"], problem["subject"], problem["jobs"]) == ("missing_argument", "welcome", 1)
    assert (problem["ids"], problem["arguments"], problem["blocks"]) == ([waiting.id], {"user": 7}, True)


def test_a_build_that_can_run_all_of_it_passes(onward, shop, url, waiting):
    ran = onward("check-deploy", "--app", shop(url, SAME), "--sample", 5, "--dead")

    assert (ran.code, ran.out, ran.err) == (0, "", "1 job checked, a sample\n")


def test_queues_are_named_by_option(onward, shop, url, waiting):
    assert onward("check-deploy", shop(url, SAME), "--queues", "other").code == 1
    assert onward("check-deploy", shop(url, SAME), "--queues", "m*,other").code == 0
    assert onward("check-deploy", shop(url, NEW), "--elsewhere", "mail").code == 6


def test_nothing_to_check_has_its_own_code(onward, shop, url, jobs):
    ran = onward("check-deploy", shop(url, NEW))

    assert (ran.code, ran.out, ran.err) == (6, "", "0 jobs checked\n")


def test_a_store_that_is_not_there_is_not_created(onward, shop, tmp_path):
    ran = onward("check-deploy", shop(f"sqlite:///{tmp_path / 'missing.db'}", NEW))

    assert ran.code == 4
    assert "there is no store at" in ran.err
    assert not (tmp_path / "missing.db").exists()


def test_tables_of_an_older_release_are_not_changed(onward, shop, url, waiting, sql, tmp_path):
    sql("DELETE FROM onward_migrations")
    before = (tmp_path / "jobs.db").read_bytes()

    ran = onward("check-deploy", shop(url, NEW))

    assert ran.code == 7
    assert "run `onward migrate` first" in ran.err
    assert (tmp_path / "jobs.db").read_bytes() == before


def test_an_application_has_to_be_named(onward, url):
    assert onward("check-deploy").code == 2
    assert onward("job", "signatures").code == 2


def test_a_broker_alone_is_told_what_needs_no_store(onward, shop):
    ran = onward("check-deploy", shop("beanstalk://127.0.0.1:1", NEW))

    assert ran.code == 3
    assert "`onward check-deploy --against FILE` needs no store" in ran.err


class TestAgainst:
    @pytest.fixture
    def compare(self, onward, shop, tmp_path):
        """Compare two builds whose store does not exist."""

        def compare(old, new):
            url = f"sqlite:///{tmp_path / 'missing.db'}"
            file = tmp_path / "build.json"
            file.write_text(onward("job", "signatures", "--json", "--app", shop(url, _module(old))).out)
            ran = onward("check-deploy", shop(url, _module(new)), "--against", file, "--json", "--quiet")
            assert not (tmp_path / "missing.db").exists()
            return ran.code, [(each["code"], each["subject"]) for each in ran.json]

        return compare

    @pytest.mark.parametrize(
        ("old", "new", "codes"),
        [
            ("a: int", "a: int", []),
            ("a: int", "a: int, b: str = ''", []),
            ("a: int", "a: int, b: str", ["missing_argument"]),
            ("a: int, b: str", "a: int", ["unknown_argument"]),
            ("a: int = 1", "a: int", ["missing_argument"]),
            ("a: int", "a: str", ["misfit"]),
            ("a: int", "a: int | None", []),
            ("a: int | None", "a: int", ["misfit"]),
            ("a: int", "a: float", []),
            ("a: float", "a: int", ["misfit"]),
            ("a: Secret[str]", "a: str", []),
            ("a: Path", "a: str", []),
            ("a: list[int]", "a: list[str]", ["misfit"]),
        ],
    )
    def test_parameters_are_compared(self, compare, old, new, codes):
        assert compare(f"@jobs.job\ndef work({old}): ...", f"@jobs.job\ndef work({new}): ...") == (
            1 if codes else 0,
            [(code, "work") for code in codes],
        )

    def test_names_and_queues_are_compared(self, compare):
        old = "@jobs.job(queue='mail')\ndef work(): ..."

        assert compare(old, "@jobs.job(queue='mail', aliases=['work'])\ndef other(): ...") == (0, [])
        assert compare(old, "@jobs.job\ndef other(): ...") == (1, [("unknown", "work"), ("unserved", "mail")])

    def test_a_file_that_is_none_is_refused(self, onward, shop, url, tmp_path):
        (tmp_path / "build.json").write_text("[1]\n")

        assert onward("check-deploy", shop(url, NEW), "--against", tmp_path / "none.json").code == 2
        ran = onward("check-deploy", shop(url, NEW), "--against", tmp_path / "build.json")
        assert ran.code == 2
        assert "write them with `onward job signatures --json`" in ran.err

    def test_people_read_signatures(self, onward, shop, url):
        ran = onward("job", "signatures", shop(url, SAME))

        assert "welcome(user, lang=…)  on mail" in ran.out.splitlines()
        lines = [
            json.loads(line)
            for line in onward("job", "signatures", "--json", "--app", shop(url, SAME)).out.splitlines()
        ]
        (found,) = [line for line in lines if line["job"] == "welcome"]
        assert found["parameters"]["user"] == {"required": True, "schema": {"type": "integer"}}


def _module(source):
    escaped = source.replace("{", "{{").replace("}", "}}")
    return f"from pathlib import Path\nfrom onward import Onward, Secret\njobs = Onward({{url!r}})\n{escaped}\n"
