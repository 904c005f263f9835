"""`onward top`: one picture for pipes and machines, a live one on a terminal."""

import os
import re
import signal
import time
from datetime import UTC, datetime, timedelta

import pytest

from onward import State
from onward.backend import Claim, Overview, QueueCounts
from onward.cli.picture import Room, picture
from onward.cli.table import measure
from onward.cli.watching import COUNTED, Look, Watch
from onward.record import JobRecord, Progress, SessionRecord

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
        "owner": "somebody",
        "cancel_requested": False,
        "result": None,
        "reason": None,
        "progress": None,
        "errors": (),
        "raw": b"",
    }
    return JobRecord(**(plain | fields))


def a_worker(number):
    return SessionRecord(
        owner=f"{number:032x}",
        host="somewhere",
        pid=number,
        version="1.2.3",
        leases=0,
        renewed_at=NOW,
        expires_at=NOW,
        alive=True,
    )


def a_look(*, queues=(), running=(), workers=(), rates=(), **counts):
    overview = Overview(counts=dict.fromkeys(State, 0) | counts, queues=list(queues), ended=0)
    return Look(NOW, overview, running, workers, rates)


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
        assert lines[0].startswith("onward top  sqlite:///")
        assert lines[2].startswith("throughput  0.0 jobs/s")
        assert lines[3] == "due 1   later 1   retry 0   running 1   done 0   dead 1   cancelled 0   "
        assert ["mail", "1", "1", "0", "1"] in [line.split() for line in lines]
        (row,) = [line for line in lines if busy.id in line]
        assert row.split()[:2] == ["send", "mail"]
        assert "01234567" in row

    def test_machines_get_one_object(self, onward, busy):
        (look,) = onward("top", "--interval", "0.1", "--json").json

        assert look["ended_per_second"] == 0
        assert look["counts"]["discarded"] == 1
        assert look["queues"] == [
            {"queue": "mail", "paused": False, "available": 1, "executing": 1, "retryable": 0, "scheduled": 1}
        ]
        assert [(job["id"], job["name"], job["attempt"]) for job in look["running"]] == [(busy.id, "send", 1)]
        assert "0123456789abcdef" in [worker["owner"] for worker in look["workers"]]

    def test_once_on_a_terminal_prints_one_too(self, terminal, busy):
        shown = terminal("top", "--once", "--interval", "0.1", columns=120).out

        assert busy.id in shown
        assert "\x1b[?1049h" not in shown

    def test_so_does_a_terminal_that_cannot_be_drawn_on(self, terminal, busy):
        ran = terminal("top", "--interval", "0.1", columns=120, TERM="dumb")

        assert ran.code == 0
        assert busy.id in ran.out
        assert "\x1b" not in ran.out

    def test_an_empty_store_is_seen_as_empty(self, onward, jobs):
        ran = onward("top", "--interval", "0.1")

        assert [line.split() for line in ran.out.splitlines()[5::2]] == [
            ["QUEUE", "none"],
            ["WORKER", "none"],
            ["RUNNING", "none"],
        ]

    def test_a_store_that_is_not_there_is_not_made(self, onward, tmp_path):
        assert onward("top").code == 4
        assert list(tmp_path.iterdir()) == []


class TestWatch:
    def test_throughput_is_what_ended_between_two_looks(self, jobs):
        job = jobs.job(name="work")(lambda: None)
        watch = Watch(jobs)
        begun = time.monotonic()
        assert watch.look().rate is None

        job.enqueue_many([()] * 30)
        jobs.drain()
        look = watch.look()

        assert look.rate >= 30 / (time.monotonic() - begun)
        assert watch.look().rate == 0

    def test_it_is_never_negative(self, jobs, kill):
        kill("one", "two")
        watch = Watch(jobs)
        watch.look()

        jobs.dead_letters.purge()

        assert watch.look().rate == 0

    def test_jobs_are_shown_by_how_long_they_have_run(self, jobs, clock, open_app):
        ago = open_app(clock=clock)
        first, second = jobs.enqueue("x"), ago.enqueue("y", queue="web")
        jobs.backend.claim(Claim(queues=("default",), owner="a"))
        ago.backend.claim(Claim(queues=("web",), owner="b"))

        assert [record.id for record in Watch(jobs).look().running] == [second.id, first.id]

    def test_the_store_is_left_alone_for_twenty_times_as_long_as_a_look_takes(self, jobs, monkeypatch):
        watch = Watch(jobs)
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
            **dict.fromkeys(State, 10**6),
        )

        lines = text(picture(look, title="t" * 300, room=Room(columns, rows), chosen=f"{25:032x}"))

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
        assert [int(line.split()[0]) for line in lines if line.endswith(" more")] == [38, 28, 43]

    @pytest.mark.parametrize("chosen", [0, 1, 20, 48, 49])
    def test_the_chosen_job_is_always_in_sight(self, chosen):
        look = a_look(running=[a_record(n, name=f"job-{n}") for n in range(50)])

        lines = picture(look, title="top", room=Room(100, 24), chosen=f"{chosen:032x}")

        (marked,) = [line for line in lines if any("reverse" in style for _, style in line)]
        assert text([marked])[0].split()[0] == f"job-{chosen}"

    def test_where_counting_stopped_there_are_more(self):
        counts = {State.AVAILABLE: COUNTED, State.SCHEDULED: COUNTED - 5, State.RETRYABLE: 5, State.EXECUTING: 3}
        look = a_look(queues=[QueueCounts(name="mail", paused=True, counts=counts)], **counts)

        lines = text(picture(look, title="top"))

        assert lines[3].startswith("due 100,000+   later 99,995+   retry 5+   running 3   done 0 ")
        assert lines[6].split() == ["mail", "100,000+", "99,995+", "5+", "3", "paused"]

    def test_progress_and_age_and_run_are_told(self):
        record = a_record(90, attempts=2, progress=Progress(fraction=0.25, note="row 5"), owner="0123456789")

        (row,) = [line for line in text(picture(a_look(running=[record]), title="top")) if record.id in line]

        assert row.split() == ["work", "default", "90", "s", "3", "01234567", "25%", "row", "5", record.id]

    def test_nothing_a_job_says_is_more_than_text(self):
        record = a_record(1, name="\x1b[2J", progress=Progress(fraction=0, note="\x1b]0;owned\x07\n"))

        lines = text(picture(a_look(running=[record]), title="top", room=Room(100, 24)))

        assert all(line.isprintable() for line in lines)
        assert r"\x1b[2J" in "\n".join(lines)


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

        assert re.search(r"^stock +0 +0 +0 +2", shown, re.MULTILINE)
        assert (top.code, left) == (0, "")

    def test_it_goes_on_with_the_store(self, live, jobs):
        top = live("top", "--interval", "0.1")
        top.wait_for("due 0 ")

        jobs.job(name="work")(lambda: None).enqueue_many([()] * 7)
        top.wait_for("due 7 ")
        jobs.drain()

        shown = top.wait_for("due 0 ", "done 7 ")
        assert "throughput" in shown

    def test_enter_shows_the_stack_of_the_job_that_the_arrows_chose(self, live, shelves):
        top = live("top", "--interval", "0.1")
        top.wait_for("count_stock", "count_again")

        top.type("\x1b[B\x1b[B\x1bOA")  # the first, the second, the first
        top.type("\r")
        first = top.wait_for("  pause_for_ever  /", "⏎ back")
        top.type("\x1b")
        top.wait_for("its stack", gone=["pause_for_ever"])
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
