"""`onward top`: one picture for pipes and machines, a live one on a terminal."""

import os
import re
import signal
import time
from datetime import UTC, datetime, timedelta

import pytest

from onward import State
from onward.backend import Check, Claim, Overview, QueueCounts, Session
from onward.cli.picture import Choice, Room, picture, shown_jobs, shown_queues
from onward.cli.table import measure
from onward.client.record import JobRecord, Progress, RunError, SessionRecord
from onward.operate.death_watch import Deaths, GoneWorker
from onward.operate.queue_pace import QueuePace
from onward.operate.watching import COUNTED, StoreWatch, WatchedStore

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)

SHOP = """\
from pathlib import Path
from onward import JobContext, Onward

jobs = Onward({url!r})

def pause_for_ever():
    open("rest").read()

@jobs.job(queue="stock")
def count_stock(ctx: JobContext) -> None:
    ctx.progress(0.5, "half way")
    pause_for_ever()

@jobs.job(queue="stock")
def count_again() -> None:
    pause_for_ever()
"""


def a_record(number, **fields):
    plain = {
        "id": f"{number:032x}",
        "job": "work",
        "name": "work",
        "queue": "default",
        "state": State.EXECUTING,
        "priority": 0,
        "payload": {},
        "meta": {},
        "attempts": 0,
        "delivery": 1,
        "crashes": 0,
        "interruptions": 0,
        "max_retries": 0,
        "available_at": NOW,
        "enqueued_at": NOW,
        "started_at": NOW - timedelta(seconds=number),
        "finished_at": None,
        "owner": "elsewhere",
        "cancel_requested": False,
        "result": None,
        "reason": None,
        "progress": None,
        "errors": (),
        "raw": b"",
    }
    return JobRecord(**(plain | fields))


def a_dead_job(number, *, kind="ValueError", message="declined", **fields):
    at = NOW - timedelta(minutes=number)
    error = RunError(attempt=1, kind=kind, message=message, traceback="", at=at, duration_ms=5)
    told = {"state": State.DISCARDED, "finished_at": at, "attempts": 1, "reason": "gave up", "errors": (error,)}
    return a_record(number, **(told | fields))


def a_worker(number, *, alive=True):
    return SessionRecord(
        owner=f"{number:032x}",
        host="somewhere",
        pid=number,
        version="1.2.3",
        leases=0,
        renewed_at=NOW,
        expires_at=NOW,
        alive=alive,
    )


def a_look(*, queues=(), running=(), workers=(), rates=(), deaths=None, checks=None, paces=None, **counts):
    overview = Overview(counts=dict.fromkeys(State, 0) | counts, queues=list(queues), ended=0)
    return WatchedStore(NOW, overview, running, workers, rates, deaths or Deaths(), checks=checks, paces=paces or {})


def a_queue(name, *, due_for=None, paused=False, **counts):
    since = None if due_for is None else round((NOW.timestamp() - due_for) * 1_000_000)
    numbers = dict.fromkeys(State, 0) | {State(state): number for state, number in counts.items()}
    return QueueCounts(name=name, paused=paused, counts=numbers, oldest_due=since)


def text(lines):
    return ["".join(part for part, _ in line) for line in lines]


class TestOnePicture:
    @pytest.fixture
    def busy(self, jobs):
        """A running job, one that is due, one for later, a dead one."""
        jobs.job(name="die", queue="web")(lambda: 1 / 0).enqueue()
        jobs.drain("web")
        running = jobs.enqueue("send", queue="mail")
        jobs.backend.claim(Claim(queues=("mail",), owner="0123456789abcdef"))
        jobs.enqueue("send", queue="mail")
        jobs.enqueue("send", queue="mail", delay="1h")
        return running

    def test_without_a_terminal_it_is_printed_once(self, onward, busy):
        ran = onward("top", "--interval", "0.1")

        lines = ran.out.splitlines()
        assert ran.code == 0
        assert "Z  onward top  sqlite:///" in lines[0]
        assert lines[2].startswith("throughput  0.0 jobs/s")
        assert lines[3] == "due 1   running 1   retry 0   dead 1   later 1   done 0   cancelled 0"
        assert re.match(r"health      served mail  dying die [0-9a-f]{12}", lines[4])
        (mail,) = [line for line in lines if line.startswith("mail ")]
        assert re.fullmatch(r"mail +\d+ m?s +1 +1 +no worker +0 +1", mail)
        (row,) = [line for line in lines if busy.id in line]
        assert row.split()[:2] == ["send", "mail"]
        assert "01234567" in row

    def test_machines_get_one_object(self, onward, busy):
        (look,) = onward("top", "--interval", "0.1", "--json").json

        assert look["ended_per_second"] == 0
        assert look["counts"]["discarded"] == 1
        (mail,) = look["queues"]
        counts = {"available": 1, "executing": 1, "retryable": 0, "scheduled": 1}
        assert mail.items() >= {"queue": "mail", "paused": False, **counts, "p95": None, "eta": None}.items()
        assert 0 <= mail["oldest_due"] < 60
        served, dying = look["checks"]
        assert (served["name"], served["about"]) == ("served", ["mail"])
        assert dying["name"] == "dying"
        assert dying["about"][0].startswith("die ")
        assert [(job["id"], job["name"], job["attempt"]) for job in look["running"]] == [(busy.id, "send", 1)]
        assert "0123456789abcdef" in [worker["owner"] for worker in look["workers"]]

    def test_once_on_a_terminal_prints_one_too(self, terminal, busy):
        shown = terminal("top", "--once", "--interval", "0.1", columns=120).out

        assert busy.id in shown
        assert "\x1b[?1049h" not in shown

    @pytest.mark.parametrize("columns", [30, 44, 80])
    def test_its_lines_are_cut_to_the_width_of_the_terminal(self, terminal, busy, columns):
        shown = re.sub(r"\x1b\[[0-9;]*m", "", terminal("top", "--once", "--interval", "0.1", columns=columns).out)

        assert "DIED" in shown
        assert max(map(measure, shown.splitlines())) <= columns

    def test_so_does_a_terminal_that_cannot_be_drawn_on(self, terminal, busy):
        ran = terminal("top", "--interval", "0.1", columns=120, TERM="dumb")

        assert ran.code == 0
        assert busy.id in ran.out
        assert "\x1b" not in ran.out

    def test_an_empty_store_is_seen_as_empty(self, onward, jobs):
        ran = onward("top", "--interval", "0.1")

        assert [line.split() for line in ran.out.splitlines()[4:] if line] == [
            ["health", "14", "checks,", "all", "fine"],
            ["deaths", "none"],
            ["QUEUE", "none"],
            ["WORKER", "none:", "`onward", "worker", "MODULE:ATTRIBUTE`", "starts", "one"],
            ["RUNNING", "none"],
        ]

    def test_a_store_that_is_not_there_is_not_made(self, onward, tmp_path):
        assert onward("top").code == 4
        assert list(tmp_path.iterdir()) == []


class TestWatch:
    def test_throughput_is_what_ended_between_two_looks(self, jobs):
        job = jobs.job(name="work")(lambda: None)
        watch = StoreWatch(jobs)
        begun = time.monotonic()
        assert watch.look().rate is None

        job.enqueue_many([()] * 30)
        jobs.drain()
        look = watch.look()

        assert look.rate >= 30 / (time.monotonic() - begun)
        assert watch.look().rate == 0

    def test_it_is_never_negative(self, jobs, kill):
        kill("one", "two")
        watch = StoreWatch(jobs)
        watch.look()

        jobs.dead_letters.purge()

        assert watch.look().rate == 0

    def test_jobs_are_shown_by_how_long_they_have_run(self, jobs, clock, open_app):
        ago = open_app(clock=clock)
        first, second = jobs.enqueue("x"), ago.enqueue("y", queue="web")
        jobs.backend.claim(Claim(queues=("default",), owner="a"))
        ago.backend.claim(Claim(queues=("web",), owner="b"))

        assert [record.id for record in StoreWatch(jobs).look().running] == [second.id, first.id]

    def test_the_store_is_left_alone_for_twenty_times_as_long_as_a_look_takes(self, jobs, monkeypatch):
        watch = StoreWatch(jobs)
        watch.look()
        assert watch.pause(1.0) == 1.0

        overview = jobs.overview

        def slow(at_most):
            begun = time.monotonic()
            while time.monotonic() < begun + 0.2:
                answer = overview(at_most)
            return answer

        monkeypatch.setattr(jobs, "overview", slow)
        watch.look()

        assert watch.pause(1.0) >= 0.2 * 20


class TestPicture:
    @pytest.mark.parametrize("columns", [20, 60, 80, 200])
    @pytest.mark.parametrize("rows", [8, 16, 24, 50])
    def test_it_fits_whatever_there_is(self, columns, rows):
        counts = dict.fromkeys(State, 123_456)
        look = a_look(
            queues=[QueueCounts(name=f"queue-{n}", paused=n % 2 == 0, counts=counts) for n in range(40)],
            running=[
                a_record(n, name="日本語" * 10, progress=Progress(fraction=0.5, note="x" * 99)) for n in range(50)
            ],
            workers=[a_worker(n) for n in range(30)],
            rates=[float(n) for n in range(60)],
            deaths=Deaths(
                [a_dead_job(n, message="日本語" * 50, name="x" * 90) for n in range(50)],
                10**6,
                [GoneWorker(a_worker(n), NOW, "killed by SIGKILL " * 20) for n in range(5)],
            ),
            **dict.fromkeys(State, 10**6),
        )

        lines = text(picture(look, title="t" * 300, room=Room(columns, rows), choice=Choice(job=f"{25:032x}")))

        assert len(lines) <= rows
        assert max(map(measure, lines)) <= columns

    def test_on_a_usual_screen_every_table_is_seen_and_says_what_it_leaves_out(self):
        counts = dict.fromkeys(State, 0)
        look = a_look(
            queues=[QueueCounts(name=f"queue-{n}", paused=False, counts=counts) for n in range(40)],
            running=[a_record(n) for n in range(50)],
            workers=[a_worker(n) for n in range(30)],
        )

        lines = text(picture(look, title="top", room=Room(100, 24)))

        assert len(lines) == 24
        assert [line.split()[0] for line in lines if line[:1].isupper()] == ["QUEUE", "WORKER", "RUNNING"]
        assert [int(line.split()[0]) for line in lines if line.endswith(" more")] == [37, 27, 47]

    def test_a_usual_screen_has_room_for_the_dead_and_a_small_one_for_their_number(self):
        look = a_look(
            running=[a_record(n) for n in range(50)],
            deaths=Deaths([a_dead_job(n) for n in range(9)]),
            discarded=9,
        )
        headings = {
            rows: [
                line.split()[0] for line in text(picture(look, title="top", room=Room(100, rows))) if line[:1].isupper()
            ]
            for rows in (16, 22)
        }

        assert headings == {16: ["QUEUE", "WORKER", "RUNNING"], 22: ["QUEUE", "WORKER", "DIED", "RUNNING"]}
        assert "deaths      9 dead jobs" in text(picture(look, title="top", room=Room(100, 16)))

    @pytest.mark.parametrize("chosen", [0, 1, 20, 48, 49])
    def test_the_chosen_job_is_always_in_sight(self, chosen):
        look = a_look(running=[a_record(n, name=f"job-{n}") for n in range(50)])

        lines = picture(look, title="top", room=Room(100, 24), choice=Choice(job=f"{chosen:032x}"))

        (marked,) = [line for line in lines if any("reverse" in style for _, style in line)]
        assert text([marked])[0].split()[0] == f"job-{chosen}"

    def test_where_counting_stopped_there_are_more(self):
        counts = {State.AVAILABLE: COUNTED, State.SCHEDULED: COUNTED - 5, State.RETRYABLE: 5, State.EXECUTING: 3}
        look = a_look(queues=[QueueCounts(name="mail", paused=True, counts=counts)], **counts)

        lines = text(picture(look, title="top"))

        assert lines[3].startswith("due 100,000+   running 3   retry 5+   dead 0   later 99,995+   done 0 ")
        assert lines[8].split() == ["mail", "100,000+", "3", "paused", "5+", "99,995+"]

    def test_progress_and_age_and_run_are_told(self):
        record = a_record(90, attempts=2, progress=Progress(fraction=0.25, note="row 5"), owner="0123456789")

        (row,) = [line for line in text(picture(a_look(running=[record]), title="top")) if record.id in line]

        assert row.split() == ["work", "default", "90", "s", "3", "01234567", "25%", "row", "5", record.id]

    def test_nothing_a_job_says_is_more_than_text(self):
        record = a_record(1, name="\x1b[2J", progress=Progress(fraction=0, note="\x1b]0;owned\x07\n"))

        lines = text(picture(a_look(running=[record]), title="top", room=Room(100, 24)))

        assert all(line.isprintable() for line in lines)
        assert r"\x1b[2J" in "\n".join(lines)


class TestSummary:
    CHECKS = (
        Check(name="paused", status="warn", detail="web has been paused", fix="x", about=("web",)),
        Check(name="late", status="fail", detail="mail is late", fix="x", about=("a", "mail", "b")),
        Check(name="served", status="ok", detail="fine"),
    )

    def line(self, look, start, width=100):
        (line,) = [line for line in text(picture(look, title="top", width=width)) if line.startswith(start)]
        return line.removeprefix(start).strip()

    def test_checks_that_do_not_pass_are_named_the_worst_first(self):
        fine, one = a_look(checks=self.CHECKS[2:]), a_look(checks=self.CHECKS[1:])

        assert self.line(a_look(), "health") == "not checked yet"
        assert self.line(fine, "health") == "1 checks, all fine"
        assert self.line(one, "health") == "late a, mail …: mail is late"
        assert self.line(a_look(checks=self.CHECKS), "health") == "late a, mail …  paused web"
        assert self.line(a_look(checks=self.CHECKS), "health", width=35) == "late  paused"

    def test_a_narrow_screen_has_no_half_numbers(self):
        look = a_look(available=1_234, executing=5, discarded=6, completed=99_999, scheduled=7)

        assert self.line(look, "due", width=40) == "1,234   running 5   dead 6   later 7"

    def test_queues_in_trouble_come_first_by_how_long_jobs_wait(self):
        queues = [a_queue("a", due_for=1), a_queue("late", due_for=400), a_queue("later", due_for=900), a_queue("z")]
        late = Check(name="late", status="fail", detail="", about=("late", "later"))
        unserved = Check(name="served", status="fail", detail="", about=("later",))

        lines = text(picture(a_look(queues=queues, checks=[unserved, late]), title="top"))[8:12]

        assert [line.split()[0] for line in lines] == ["later", "late", "a", "z"]
        assert [line.split()[:3] for line in lines[:2]] == [["later", "15", "m"], ["late", "6", "m"]]
        assert "no worker" in lines[0]

    def test_a_queue_shows_its_pace_once_that_is_known(self):
        look = a_look(queues=[a_queue("mail", available=9)])
        known = look._replace(paces={"mail": QueuePace(out=12.3, enters=0.25, p95=0.04, eta=90)})

        assert "OUT/s" not in "\n".join(text(picture(look, title="top")))
        (heading, row) = text(picture(known, title="top"))[7:9]
        assert heading.split() == ["QUEUE", "WAITS", "DUE", "RUN", "OUT/s", "IN/s", "ETA", "P95", "RETRY", "LATER"]
        assert row.split() == ["mail", "9", "0", "12", "0.2", "90", "s", "40", "ms", "0", "0"]

    @pytest.mark.parametrize(
        ("typed", "queues", "jobs"),
        [
            ("", ["mail", "mail-2", "web"], ["send", "render"]),
            ("queue:mail", ["mail"], ["send"]),
            ("queue:mail*", ["mail", "mail-2"], ["send"]),
            ("job:ren*", ["mail", "mail-2", "web"], ["render"]),
            ("queue:web send", [], []),
            ("mail queue:m*", ["mail", "mail-2"], ["send"]),
            ("queue:", [], []),
        ],
    )
    def test_a_filter_may_have_the_words_of_every_filter(self, typed, queues, jobs):
        look = a_look(
            queues=[QueueCounts(name=name, paused=False, counts={}) for name in ("mail", "mail-2", "web")],
            running=[a_record(1, name="send", queue="mail"), a_record(2, name="render", queue="web")],
        )
        choice = Choice(filter=typed)

        assert [row.name for row in shown_queues(look, choice)] == queues
        assert [record.name for record in shown_jobs(look, choice)] == jobs

    def test_a_filter_leaves_in_the_queues_and_jobs_that_have_it_in_their_names(self):
        look = a_look(
            queues=[a_queue("mail"), a_queue("web")],
            running=[
                a_record(1, name="send_mail", queue="x"),
                a_record(2, name="y", queue="mail"),
                a_record(3, name="z"),
            ],
        )

        lines = text(picture(look, title="top", choice=Choice(filter="mail")))

        assert [line.split()[0] for line in lines[8:] if line and line[0].islower()] == ["mail", "send_mail", "y"]


class TestDeaths:
    def line(self, look):
        (line,) = [line for line in text(picture(look, title="top")) if line.startswith("deaths")]
        return line.removeprefix("deaths").strip()

    def test_where_nothing_died_that_is_said(self):
        assert self.line(a_look(workers=[a_worker(1)])) == "none"

    def test_they_are_counted_in_words(self):
        one = a_look(deaths=Deaths([a_dead_job(1)], 1), discarded=1)
        many = a_look(
            deaths=Deaths(
                [a_dead_job(1), a_dead_job(2, kind="Crash", crashes=3)],
                2,
                [GoneWorker(a_worker(1), NOW, "killed by SIGKILL"), GoneWorker(a_worker(2), NOW, None)],
            ),
            workers=[a_worker(3, alive=False), a_worker(4, alive=False), a_worker(5)],
            discarded=2,
        )
        more = a_look(deaths=Deaths([a_dead_job(n, kind="Crash") for n in range(50)]), discarded=1234)

        assert self.line(one) == "1 dead job, 1 while you watched"
        assert self.line(many) == "2 dead jobs, 1 by a crash, 2 while you watched, 1 worker died, 2 workers expired"
        assert self.line(more) == "1,234 dead jobs, 50 of the last 50 by a crash"

    def test_each_has_its_job_its_time_and_its_error(self):
        look = a_look(deaths=Deaths([a_dead_job(3, name="charge", queue="pay")]), discarded=1)

        (row,) = [line for line in text(picture(look, title="top")) if "charge" in line]

        assert row.split() == ["3", "m", "ago", "charge", "pay", "1", "ValueError:", "declined", f"{3:032x}"]

    def test_those_that_died_last_come_first_whenever_they_were_enqueued(self, jobs, kill):
        first, second = kill("one", "two")
        jobs.dead_letters.replay([first])
        jobs.drain()

        look = StoreWatch(jobs).look()

        assert [record.id for record in look.deaths.jobs] == [first, second]
        assert [record.errors[-1].message for record in look.deaths.jobs] == ["one", "two"]

    def test_a_look_counts_what_died_since_the_first(self, jobs, kill):
        kill("before")
        watch = StoreWatch(jobs)
        assert watch.look().deaths.while_watching == 0
        kill("one", "two")
        assert watch.look().deaths.while_watching == 2
        jobs.dead_letters.purge()

        assert watch.look().deaths.while_watching == 2  # what was removed has died all the same

    def test_a_worker_that_ends_by_itself_has_not_died(self, jobs):
        watch = StoreWatch(jobs)
        with jobs.worker():
            (owner,) = [worker.owner for worker in watch.look().workers]

        (gone,) = watch.look().deaths.gone
        assert (gone.worker.owner, gone.cause) == (owner, None)

    def test_one_whose_session_expired_has(self, jobs, past):
        past.backend.open_session(Session(owner="dead", lease_for=timedelta(1), host="vm", pid=7, version="0"))
        past.backend.open_session(Session(owner="late", lease_for=timedelta(seconds=1), host="vm", pid=8, version="0"))
        watch = StoreWatch(jobs)
        watch.look()
        jobs.reap()

        (gone,) = watch.look().deaths.gone
        assert (gone.worker.owner, gone.cause) == ("late", "its session expired")

    def test_machines_get_them_too(self, onward, kill):
        (job_id,) = kill("one")

        (look,) = onward("top", "--interval", "0.1", "--json").json

        (dead,) = look["deaths"]["jobs"]
        assert (dead["id"], dead["name"], dead["error"]) == (job_id, "fail", "RuntimeError: one")
        assert (look["deaths"]["while_watching"], look["deaths"]["workers"]) == (0, [])


class TestLive:
    @pytest.fixture
    def shelves(self, tmp_path, jobs, shop, url, worker, eventually):
        """A worker process with two jobs that rest; gives their handles."""
        os.mkfifo(tmp_path / "rest")
        worker(shop(url, SHOP))
        handles = [jobs.enqueue(name, queue="stock") for name in ("count_stock", "count_again")]
        eventually(lambda: all(handle.state() is State.EXECUTING for handle in handles))
        return handles

    def test_it_shows_what_runs_until_q(self, live, shelves, jobs):
        top = live("top", "--interval", "0.1")

        shown = top.wait_for("count_stock", "count_again", "50% half way", "running 2")
        top.type("q")
        left = top.end()

        assert re.search(r"^stock +0 +2 ", shown, re.MULTILINE)
        assert (top.code, left) == (0, "")

    def test_it_goes_on_with_the_store(self, live, jobs):
        top = live("top", "--interval", "0.1")
        top.wait_for("due 0 ")

        jobs.job(name="work")(lambda: None).enqueue_many([()] * 7)
        top.wait_for("due 7 ")
        jobs.drain()

        shown = top.wait_for("due 0 ", "done 7 ")
        assert "throughput" in shown

    def test_it_shows_a_process_that_is_killed_and_the_job_that_dies_of_it(self, live, shelves, jobs):
        top = live("top", "--interval", "0.1", rows=40)
        top.wait_for("count_stock", "count_again", "deaths      none")
        (worker,) = {worker.pid for worker in jobs.sessions() if worker.leases}

        os.kill(worker, signal.SIGKILL)

        shown = top.wait_for(": killed by SIGKILL", "1 worker died")
        assert re.search(rf"^\w+ .* {worker} +2 .*died", shown, re.MULTILINE)
        shown = top.wait_for("count_stock", "count_again", "running 2")
        assert re.search(r"^count_stock .* 1 +1 ", shown, re.MULTILINE)  # its first attempt, after a crash

    def test_it_shows_a_job_that_dies(self, live, jobs, kill):
        top = live("top", "--interval", "0.1", columns=120)
        top.wait_for("deaths      none")

        (job_id,) = kill("the card was declined", job="charge")

        shown = top.wait_for("1 dead job, 1 while you watched", "RuntimeError: the card was declined")
        assert re.search(rf"charge +default +1 .*declined +{job_id}", shown)

    def test_enter_shows_the_stack_of_the_job_that_the_arrows_chose(self, live, shelves):
        top = live("top", "--interval", "0.1")
        top.wait_for("count_stock", "count_again")

        top.type("\x1b[B\x1b[B\x1bOA")  # the first, the second, the first
        top.type("\r")
        first = top.wait_for("  pause_for_ever  /", "⏎ back")
        top.type("\x1b")
        top.wait_for("⏎ stack", gone=["pause_for_ever"])
        top.type("j\n")
        second = top.wait_for("  pause_for_ever  /", "⏎ back")

        assert "  count_stock  /" in first
        assert "  count_again  /" in second
        assert "count_stock" not in second
        top.type("q")
        top.end()
        assert top.code == 0

    def test_a_stack_that_cannot_be_had_says_why(self, live, jobs):
        jobs.enqueue("x")
        jobs.backend.claim(Claim(queues=("default",), owner="elsewhere"))
        top = live("top", "--interval", "0.1")
        top.wait_for("RUNNING  QUEUE")

        top.type("\r")

        top.wait_for("runs on another machine")
        top.type("\r")
        top.wait_for("RUNNING  QUEUE")

    def test_w_says_why_the_chosen_job_is_where_it_is(self, live, jobs):
        waiting = jobs.enqueue("send", queue="mail")
        top = live("top", "--interval", "0.1")
        top.wait_for("no worker")

        top.type("\tw")
        top.wait_for(f"why {waiting.id}", "unserved", "do       onward worker MODULE:ATTRIBUTE --queues mail")

        top.type("\x1b")
        top.wait_for("RUNNING  none")

    def test_d_shows_what_killed_the_dead(self, live, jobs, kill):
        kill("the card was declined", job="charge")
        top = live("top", "--interval", "0.1", rows=12)
        top.wait_for("1 dead job")

        top.type("d")

        top.wait_for("DEAD", "charge", "RuntimeError", "onward dead canary --job charge --group ", "⏎ back")

    def test_h_shows_the_checks_and_what_to_type(self, live, past):
        past.enqueue("send", queue="mail")
        top = live("top", "--interval", "0.1")
        top.wait_for("served mail")

        top.type("h")

        top.wait_for("CHECK", "→ onward worker MODULE:ATTRIBUTE --queues mail", "sessions")

    def test_p_pauses_the_chosen_queue_when_that_is_confirmed(self, live, jobs):
        for queue in ("mail", "web"):
            jobs.enqueue("send", queue=queue)
        top = live("top", "--interval", "0.1")
        top.wait_for("mail ", "web ")

        top.type("\tj")
        top.type("p")
        top.wait_for("pause queue web? No job of it starts until it is resumed.")
        top.type("n")
        top.wait_for("nothing was changed")
        assert not any(queue.paused for queue in jobs.queues())

        top.type("py")
        top.wait_for("queue web is paused")
        assert [queue.name for queue in jobs.queues() if queue.paused] == ["web"]
        (entry,) = jobs.audit()
        assert (entry.act, entry.ref, entry.detail, "@" in entry.who) == ("pause", "web", "onward top", True)

        top.type("p")
        top.wait_for("resume queue web?")
        top.type("y")
        top.wait_for("queue web is resumed")
        assert not any(queue.paused for queue in jobs.queues())

    def test_a_filter_is_typed_kept_and_cleared(self, live, jobs):
        for queue in ("mail", "quick"):
            jobs.enqueue("send", queue=queue)
        top = live("top", "--interval", "0.1")
        top.wait_for("mail ", "quick ")

        top.type("/qu")  # q is a letter here
        top.wait_for("/qu▏", "quick ", gone=["mail "])
        top.type("\r")
        top.wait_for("/qu  ", "q quit", "quick ", gone=["mail "])
        top.type("\x1b")
        top.wait_for("mail ", "quick ")

    def test_a_question_mark_shows_every_key_and_an_unknown_key_does_nothing(self, live, jobs):
        top = live("top", "--interval", "0.1", columns=40)
        top.wait_for("? keys", gone=["filter"])

        top.type("\x1b[15~xé?")

        top.wait_for("pause the chosen queue", "so does Ctrl-C")

    def test_enter_where_nothing_runs_does_nothing(self, live, jobs):
        top = live("top", "--interval", "0.1")
        top.wait_for("RUNNING  none")

        top.type("\r\x1b[Aq")
        top.end()

        assert top.code == 0

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
    def test_however_it_ends_the_terminal_is_as_before(self, live, jobs, number, code):
        top = live("top", "--interval", "0.1")
        top.wait_for("QUEUE")

        top.signal(number)
        left = top.end()

        assert (top.code, left) == (code, "")
        assert top.everything.count("\x1b[?1049h") == top.everything.count("\x1b[?1049l") == 1
        assert "\x1b[?25h" in top.everything  # the cursor is back

    def test_a_store_that_is_away_for_a_while_is_waited_for(self, live, jobs, tmp_path):
        jobs.enqueue("x")
        top = live("top", "--interval", "0.1")
        top.wait_for("due 1 ")

        (tmp_path / "jobs.db").rename(tmp_path / "away.db")
        top.wait_for("the store does not answer", "due 1 ")
        (tmp_path / "away.db").rename(tmp_path / "jobs.db")

        top.wait_for("q quit", gone=["does not answer"])

    def test_json_on_a_terminal_is_a_line_for_every_look(self, live, jobs):
        top = live("top", "--interval", "0.1", "--json", columns=1_000)

        top._look_until(lambda: top.everything.count('{"at":') >= 3)
        top.signal(signal.SIGINT)
        top.end()

        assert top.code == 130
        assert "\x1b" not in top.everything
