"""`onward health`: what is wrong, what to type, and that typing it mends it."""

import re
import shlex
import subprocess
import time
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from onward import Onward
from onward.backend import Check, Claim, Session
from onward.cli.health import lines
from onward.cli.table import measure
from onward.testing import FakeClock

APP = """\
import os, signal, time
from onward import Onward

jobs = Onward({url!r})

@jobs.job(queue="mail")
def welcome() -> str:
    return "welcome"

@jobs.job(queue="mail", timeout="1d")
def rest() -> None:
    while True:
        time.sleep(0.01)

@jobs.job(queue="mail")
def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def text(styled):
    return "".join(part for part, _ in styled)


class TestTable:
    CHECKS = (
        Check(
            name="served",
            status="fail",
            detail="no live worker serves queue mail",
            fix="onward worker shop:jobs --queues mail",
        ),
        Check(name="paused", status="warn", detail="queue web has been paused", fix="onward queue resume web"),
        Check(name="space", status="ok", detail="18,000 MiB free in a folder with a rather long name"),
    )

    @pytest.fixture
    def said(self, monkeypatch, jobs):
        def said(*checks):
            monkeypatch.setattr(Onward, "health", lambda self: list(checks))

        return said

    def test_every_check_is_a_line(self, onward, jobs):
        ran = onward("health")

        assert ran.code == 0
        assert ran.out.splitlines()[0].split() == ["CHECK", "STATUS", "DETAIL"]
        assert "jobs.db" in ran.out
        assert {"file", "schema", "integrity", "served", "late"} < {
            line["name"] for line in onward("health", "--json").json
        }

    def test_a_check_that_fails_is_a_failure_and_a_warning_is_one_if_it_is_strict(self, onward, said):
        fail, warn, fine = self.CHECKS

        said(fine)
        assert (onward("health").code, onward("health", "--strict").code) == (0, 0)
        said(fine, warn)
        assert (onward("health").code, onward("health", "--strict").code) == (0, 1)
        said(fine, warn, fail)
        assert (onward("health").code, onward("health", "--strict").code) == (1, 1)

    def test_the_worst_comes_first_and_each_has_its_fix_below(self, onward, said):
        said(*reversed(self.CHECKS))

        ran = onward("health")

        assert [line.split()[0] for line in ran.out.splitlines()] == ["CHECK", "served", "→", "paused", "→", "space"]
        assert ran.err == "1 check fails, 1 check warns, 1 is fine\n"

    def test_machines_get_name_status_detail_fix_and_what_it_is_about(self, onward, said):
        said(msgspec.structs.replace(self.CHECKS[0], about=("mail",)))

        (line,) = onward("health", "--json").json

        assert list(line) == ["name", "status", "detail", "fix", "about"]
        assert line["about"] == ["mail"]

    def test_the_application_that_is_named_stands_in_the_commands(self, onward, shop, url, past):
        past.enqueue("welcome", queue="mail")
        app = shop(url)

        assert "→ onward worker MODULE:ATTRIBUTE --queues mail" in onward("health").out
        assert f"→ onward worker {app} --queues mail" in onward("--app", app, "health").out

    @pytest.mark.parametrize("width", [30, 40, 80, 200])
    def test_it_fits_and_loses_no_word(self, width):
        shown = [text(line) for line in lines(self.CHECKS, width)]

        assert max(map(measure, shown)) <= width
        words = " ".join(shown).split()
        for check in self.CHECKS:
            assert set(check.detail.split()) | set(check.fix.split()) <= set(words)

    def test_nothing_a_name_says_is_more_than_text(self):
        shown = [
            text(line) for line in lines([Check(name="late", status="fail", detail="queue \x1b[2J", fix="\x07")], 80)
        ]

        assert all(line.isprintable() for line in shown)

    def test_it_is_coloured_on_a_terminal(self, terminal, past):
        past.enqueue("welcome", queue="mail")

        shown = terminal("health", columns=60).out

        assert "\x1b[1;31mfail" in shown
        plain = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
        assert max(map(measure, plain[:5])) <= 60  # what has longer words, such as a path, is not cut


def _mended(message: str) -> None:
    """Do what failed before."""


@pytest.mark.promise("S159")
class TestStories:
    """One story for each check: it does not pass, what it says is typed, and it passes."""

    @pytest.fixture
    def app(self, shop, url):
        return shop(url, APP)

    @pytest.fixture
    def health(self, onward):
        def health(name):
            (found,) = [line for line in onward("health", "--json").json if line["name"] == name]
            return found

        return health

    @pytest.fixture
    def does_not_pass(self, health, app):
        def does_not_pass(name, status):
            check = health(name)
            assert check["status"] == status, check
            return check["fix"].partition("  #")[0].replace("MODULE:ATTRIBUTE", app)

        return does_not_pass

    @pytest.fixture
    def type_fix(self, onward, worker):
        """Type what a check says, on the machine that it says."""

        def type_fix(fix):
            words = shlex.split(fix)
            if words[:2] == ["onward", "worker"]:
                return worker(*words[2:])
            if words[0] == "onward":
                assert onward(*words[1:]).code == 0
            else:
                assert words[0] == "ssh"
                subprocess.run(words[2:], check=True)
            return None

        return type_fix

    @pytest.fixture
    def passes(self, health, eventually):
        return lambda name: eventually(lambda: health(name)["status"] == "ok")

    def test_served(self, past, does_not_pass, type_fix, passes):
        past.enqueue("welcome", queue="mail")

        type_fix(does_not_pass("served", "fail"))

        passes("served")

    def test_late(self, jobs, past, app, worker, does_not_pass, type_fix, passes, eventually):
        busy = jobs.enqueue("rest", queue="mail")
        worker(app, "--queues", "mail", "--concurrency", "1")
        eventually(lambda: busy.state() == "executing")
        past.enqueue("welcome", queue="mail")

        type_fix(does_not_pass("late", "fail"))

        passes("late")

    def test_paused(self, url, does_not_pass, type_fix, passes):
        with Onward(url, clock=FakeClock(datetime.now(UTC) - timedelta(hours=25))) as yesterday:
            yesterday.pause("mail")

        type_fix(does_not_pass("paused", "warn"))

        passes("paused")

    def test_known(self, jobs, health, does_not_pass, type_fix, passes, eventually):
        job = jobs.enqueue("welcome", queue="mail")
        jobs.drain("mail")  # this application does not define it

        type_fix(does_not_pass("known", "fail"))
        eventually(lambda: health("known")["status"] != "fail")
        if health("known")["status"] == "warn":  # it is due in ten seconds
            type_fix(does_not_pass("known", "warn"))

        passes("known")
        assert job.result(30) == "welcome"

    def test_dying(self, jobs, kill, does_not_pass, type_fix, passes):
        kill("one", job="charge")

        fix = does_not_pass("dying", "warn")

        (group,) = jobs.dead_letters.groups()
        assert fix == f"onward dead canary --job charge --group {group.fingerprint}"
        with Onward(jobs.settings.url) as mended:
            mended.job(name="charge")(_mended)
            with mended.worker():
                type_fix(fix)
        passes("dying")

    def test_crashing(self, jobs, app, worker, does_not_pass, type_fix, passes, eventually):
        job = jobs.enqueue("die", queue="mail")
        process = worker(app)
        eventually(lambda: jobs.get(job.id).crashes == 1)
        process.kill()  # or it would run it again, alone
        process.wait()

        type_fix(does_not_pass("crashing", "warn"))

        passes("crashing")

    def test_stuck(self, jobs, app, worker, sql, does_not_pass, type_fix, passes, eventually):
        job = jobs.enqueue("rest", queue="mail")
        worker(app)
        eventually(lambda: job.state() == "executing")
        days_ago = round((time.time() - 2 * 86_400) * 1_000_000)
        sql("UPDATE onward_jobs SET started_at = ?", days_ago)

        type_fix(does_not_pass("stuck", "warn"))

        passes("stuck")

    def test_sessions(self, past, does_not_pass, type_fix, passes):
        past.enqueue("welcome", queue="mail")
        past.backend.open_session(Session(owner="dead", host="gone", pid=7))
        past.backend.claim(Claim(queues=("mail",), owner="dead"))

        type_fix(does_not_pass("sessions", "fail"))

        passes("sessions")

    def test_versions(self, jobs, app, worker, sql, does_not_pass, type_fix, passes, eventually):
        old = worker(app)
        eventually(lambda: len(jobs.sessions()) == 1)
        worker(app)
        eventually(lambda: len(jobs.sessions()) == 2)
        self.long_ago(sql)
        sql("UPDATE onward_sessions SET version = '0.0.9' WHERE pid IN (SELECT min(pid) FROM onward_sessions)")

        type_fix(does_not_pass("versions", "warn"))

        passes("versions")
        assert old.wait(30) == 0

    def test_builds(self, jobs, app, worker, sql, does_not_pass, type_fix, passes, eventually):
        old = worker(app)
        eventually(lambda: len(jobs.sessions()) == 1)
        worker(app)
        eventually(lambda: len(jobs.sessions()) == 2)
        self.long_ago(sql)
        older = "json_set(CAST(description AS TEXT), '$.build', 'v1')"
        sql(
            f"UPDATE onward_sessions SET description = CAST({older} AS BLOB) "
            "WHERE pid IN (SELECT min(pid) FROM onward_sessions)"
        )

        type_fix(does_not_pass("builds", "warn"))

        passes("builds")
        assert old.wait(30) == 0

    def test_keys(self, jobs, app, onward, worker, monkeypatch, does_not_pass, type_fix, passes, eventually):
        old, new = (onward("keys", "new", "--id", name).out.strip() for name in ("k1", "k2"))
        monkeypatch.setenv("ONWARD_SIGNING_KEYS", old)
        lacks = worker(app)
        eventually(lambda: len(jobs.sessions()) == 1)
        monkeypatch.setenv("ONWARD_SIGNING_KEYS", f"{new},{old}")

        type_fix(does_not_pass("keys", "fail"))

        assert lacks.wait(30) == 0
        worker(app)  # by what has started it before, with the key
        eventually(lambda: len(jobs.sessions()) == 1)
        passes("keys")

    def test_samples(self, jobs, shop, url, worker, sql, does_not_pass, type_fix, passes, eventually):
        app = shop(url, APP.replace("{url!r}", "{url!r}, lease_for=3"))  # it renews every second
        sql("CREATE TRIGGER refuse BEFORE INSERT ON onward_series BEGIN SELECT raise(ABORT, 'refused'); END")
        silent = worker(app)
        eventually(lambda: len(jobs.sessions()) == 1)
        self.long_ago(sql)
        fix = does_not_pass("samples", "warn")
        sql("DROP TRIGGER refuse")  # what its log says

        type_fix(fix)

        assert silent.wait(30) == 0
        worker(app)
        eventually(lambda: len(jobs.sessions()) == 1)
        self.long_ago(sql)
        passes("samples")

    def test_schedules(self, past, app, onward, does_not_pass, type_fix, passes):
        welcome = past.job(name="welcome", queue="mail")(lambda: "welcome")
        past.schedules.create("often", "* * * * *", welcome.call())

        type_fix(does_not_pass("schedules", "fail"))

        passes("schedules")

    def long_ago(self, sql):
        """Let every worker have started hours ago, the one with the lower process id first."""
        started = "json_set(CAST(description AS TEXT), '$.started', 1000000 + pid)"
        sql(f"UPDATE onward_sessions SET description = CAST({started} AS BLOB)")


def test_a_worker_process_tells_its_subscribers_what_changed(jobs, shop, url, worker, tmp_path, eventually):
    """The supervisor is the sampler, and has no subscribers: it lets a process compare."""
    source = """\
from pathlib import Path
from onward import Onward
from onward.telemetry import HealthChanged

jobs = Onward({url!r}, lease_for=3)

@jobs.on(HealthChanged)
def note(change: HealthChanged) -> None:
    with Path("told").open("a") as told:
        told.write(f"{{change.check}} {{change.before}} {{change.status}} {{change.about}}\\n")

@jobs.job(queue="mail")
def welcome() -> None: ...
"""
    jobs.enqueue("send", queue="orphans")

    worker(shop(url, source), "--processes", "2")

    told = tmp_path / "told"
    eventually(lambda: told.exists() and "served ok warn ('orphans',)" in told.read_text())
