"""Where output goes and what it looks like: on a terminal, in a pipe, for machines."""

import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

from onward import Onward
from onward.cli import terminal as moving
from onward.cli.table import Column, Table

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
NASTY = "\x1b[2J\x1b]0;owned\x07 \x9b31m \u202egnp \r\n\t\x00 日本"


class TestOptions:
    def test_options_of_every_command_stand_before_or_after_it(self, onward, jobs):
        jobs.enqueue("x")

        before, between, after = (
            onward("--json", "job", "list"),
            onward("job", "--json", "list"),
            onward("job", "list", "--json"),
        )

        assert before.json == between.json == after.json != []

    def test_the_nearer_to_the_command_wins(self, onward, tmp_path):
        ran = onward("--namespace", "one", "config", "--namespace", "two", "--json")

        assert {"name": "namespace", "value": "two", "source": "--namespace"} in ran.json

    def test_quiet_leaves_data_and_errors(self, onward, jobs):
        assert onward("job", "list", "--quiet").err == ""
        assert onward("job", "show", "0" * 32, "--quiet").err.startswith("error: ")

    def test_debug_shows_the_whole_log_and_nothing_else_shows_less_than_errors(self, onward, jobs, monkeypatch):
        monkeypatch.setattr(Onward, "reap", lambda *_: logging.getLogger("onward.backend").warning("stale") or [])

        assert "onward.backend: stale" in onward("reap", "--debug").err
        assert "stale" not in onward("reap").err

    @pytest.mark.parametrize("words", [["--help"], ["job", "--help"], ["job", "list", "--help"], ["enqueue", "-h"]])
    def test_help_is_data(self, onward, words):
        ran = onward(*words)

        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith("usage: onward ")

    def test_the_help_names_the_exit_codes(self, onward):
        assert "6  nothing matched" in onward("--help").out


class TestProgram:
    def test_it_runs_as_a_program_of_its_own_and_as_a_module(self, shell):
        own = subprocess.run(
            [Path(sys.executable).with_name("onward"), "version"], capture_output=True, text=True, check=True
        )

        assert own.stdout == shell("version").out

    def test_a_reader_that_leaves_is_no_error(self, program, jobs):
        jobs.job(name="welcome")(lambda: None).enqueue_many([()] * 2_000)
        command = f"{' '.join(program)} job list --all | head -n 1; echo ${{PIPESTATUS[0]}}"

        ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)

        heading, code = ran.stdout.splitlines()
        assert heading.startswith("ID ")
        assert (code, ran.stderr) == ("141", "")

    def test_a_disk_that_is_full_is_told_once(self, program, jobs):
        jobs.enqueue("x")

        ran = subprocess.run(
            ["bash", "-c", f"{' '.join(program)} job list > /dev/full"], stderr=-1, text=True, check=False
        )

        assert (ran.returncode, ran.stderr) == (1, "error: [Errno 28] No space left on device\n")

    def test_bytes_that_are_no_text_are_refused(self, program, url):
        ran = subprocess.run([*program, "enqueue", "x", b"a=\xff"], stdout=-1, stderr=-1, text=True, check=False)

        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr.startswith("error: x: ")

    def test_a_locale_that_cannot_say_it_is_survived(self, shell, jobs):
        job_id = jobs.enqueue("x", meta={"city": "Zürich"}).id

        ran = shell("job", "show", job_id, PYTHONIOENCODING="ascii")

        assert ran.code == 0
        assert r"Z\xfcrich" in ran.out

    def test_nothing_for_terminals_is_imported_without_one(self, jobs):
        jobs.enqueue("x")
        code = """
import sys
from onward.cli import main
lines = ["--help", "job list", "job list --json", "queue list", "health", "reap", "job show 00000000", "--bogus"]
for line in [*lines, "worker list", "top --interval 0.1", "job stack 00000000", "demo --help"]:
    main(line.split())
    assert "rich" not in sys.modules, line
"""

        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


class TestTerminal:
    @pytest.fixture
    def rows(self, jobs):
        jobs.enqueue("a_job_with_a_long_name", queue="a-queue-with-a-long-name")
        jobs.enqueue("x", queue="q", delay="1h")

    def test_rows_are_cut_to_80_columns_but_never_the_id(self, terminal, jobs, rows):
        shown = COLOUR.sub("", terminal("job", "list").out).splitlines()

        assert max(map(len, shown)) == 80
        assert [line.split()[0] for line in shown[1:]] == [record.id for record in jobs.list()]
        assert "…" in shown[1]
        assert "PRIORITY" not in shown[0]

    def test_a_wide_terminal_shows_everything(self, terminal, rows):
        shown = COLOUR.sub("", terminal("job", "list", columns=140).out)

        assert "PRIORITY" in shown
        assert "…" not in shown

    def test_states_have_colours_unless_no_color_is_set(self, terminal, rows):
        coloured, plain = terminal("job", "list").out, terminal("job", "list", NO_COLOR="1").out

        assert "\x1b[34mscheduled\x1b[0m" in coloured
        assert "\x1b" not in plain
        assert COLOUR.sub("", coloured).split()[:5] == plain.split()[:5]

    def test_json_on_a_terminal_is_plain(self, terminal, rows):
        assert "\x1b" not in terminal("job", "list", "--json").out

    def test_enqueueing_many_on_a_terminal_prints_their_number_instead_of_their_ids(self, terminal, url, tmp_path):
        (tmp_path / "lines").write_text("{}\n" * 3)

        assert terminal("enqueue", "x", "--queue", "mail", "--many", "lines").out == "enqueued 3 jobs\n"

    def test_nothing_a_job_says_drives_the_terminal(self, terminal, kill):
        (job_id,) = kill(NASTY)

        for words in (["dead", "list"], ["job", "show", job_id], ["job", "show", job_id, "--json"]):
            shown = COLOUR.sub("", terminal(*words, columns=200).out)
            assert "x1b[2J" in shown or "u001b[2J" in shown
            assert all(c.isprintable() or c == "\n" for c in shown)

    def test_nor_an_error_on_stderr(self, terminal, jobs):
        shown = COLOUR.sub("", terminal("job", "show", NASTY.replace("\x00", "")).out)

        assert "there is no job" in shown
        assert all(c.isprintable() or c == "\n" for c in shown)


class TestControlCharacters:
    def test_they_are_written_out_in_columns(self, onward, kill):
        kill("\x1b[2J\nsecond line")

        assert r"RuntimeError: \x1b[2J\nsecond line" in onward("dead", "list").out

    def test_they_are_written_out_in_errors_tracebacks_and_the_log(self, onward, shop):
        ran = onward(
            "--app", shop("sync://"), "enqueue", "refuse", "why=\x1b[2J", "--max-retries=0", "--wait", "--debug"
        )

        assert ran.code == 1
        assert "onward.job: job.discarded" in ran.err
        assert "Traceback" in ran.err
        assert r"\x1b[2J" in ran.err
        assert "\x1b" not in ran.err

    def test_json_says_the_same_with_all_of_them_escaped(self, onward, kill):
        kill(NASTY)

        ran = onward("dead", "list", "--json")

        assert ran.json[0]["errors"][0]["message"] == NASTY.replace("\x00", "\\x00")
        assert ran.out.replace("\n", "").isprintable()


class TestProgress:
    def test_a_bar_shows_how_far_long_work_has_come(self, monkeypatch, capsys):
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(moving, "_PATIENCE", -1)

        with moving.Bar("replaying", 1_000) as bar:
            bar.advance(500)
            bar.advance(500)

        shown = COLOUR.sub("", capsys.readouterr().err)
        assert "replaying" in shown
        assert "1000/1000" in shown

    def test_work_that_is_over_soon_shows_none(self, capsys):
        with moving.Bar("replaying", 1_000) as bar:
            bar.advance(1_000)

        assert capsys.readouterr().err == ""

    def test_long_work_on_a_terminal_goes_on_behind_a_spinner(self, terminal, jobs):
        assert terminal("prune").out.endswith("pruned 0 finished jobs\n")


class TestTable:
    def columns(self, **options):
        return [Column("A", lambda row: row[0], flexible=True), Column("B", lambda row: row[1], **options)]

    def lines(self, table, *rows):
        return ["".join(text for text, _ in line) for line in table.page(rows)]

    def test_a_column_is_as_wide_as_its_widest_cell(self):
        table = Table(self.columns(), width=None)

        assert self.lines(table, ("x", "1"), ("longer", "2")) == ["A       B", "x       1", "longer  2"]

    def test_a_later_page_has_no_heading_and_no_narrower_column(self):
        table = Table(self.columns(), width=None)
        self.lines(table, ("longer", "1"))

        assert self.lines(table, ("x", "2")) == ["x       2"]
        assert self.lines(table, ("much longer", "3"), ("x", "4")) == ["much longer  3", "x            4"]

    def test_what_is_merely_useful_is_left_out_first(self):
        table = Table(self.columns(useful=True), width=10)

        assert self.lines(table, ("12345678", "12345678")) == ["A", "12345678"]

    def test_then_what_is_flexible_is_cut(self):
        table = Table(self.columns(), width=20)

        assert self.lines(table, ("1234567890", "1234567890")) == ["A         B", "1234567…  1234567890"]

    def test_wide_characters_count_twice(self):
        table = Table(self.columns(), width=16)

        lines = self.lines(table, ("日本語日本語", "12345678"), ("x", "y"))

        assert lines == ["A       B", "日本…   12345678", "x       y"]

    def test_numbers_stand_right(self):
        table = Table(self.columns(right=True), width=None)

        assert self.lines(table, ("x", "1"), ("y", "100")) == ["A    B", "x    1", "y  100"]

    def test_an_empty_page_is_nothing(self):
        assert self.lines(Table(self.columns(), width=None)) == []
