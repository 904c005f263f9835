"""The run of all proofs: it can be stopped and goes on, a part that fails is told, and its page says what it is made of."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.proof import proofs
from tests.proof.totals import DONE, OTHER, WRONG, totals_of
from tools.proof_part import BUDGET
from tools.proof_parts import PARTS
from tools.proof_record import Records, code_of_now

ROOT = Path(__file__).parents[2]
PATIENCE = 60


class Proof:
    """Runs of sample parts in a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.page = folder / "proof.md"

    def start(self, *options, parts="tests.tools.proof_sample:PARTS", at_once=1):
        places = [
            "--folder",
            str(self.folder / "records"),
            "--page",
            str(self.page),
            "--parts",
            parts,
            "--code",
            "c0de",
            "--at-once",
            str(at_once),
        ]
        return subprocess.Popen(
            [sys.executable, "-m", "tools.proof", *places, *options],
            cwd=ROOT,
            env=os.environ | {"PROOF_SAMPLE": str(self.folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *options, **which):
        with self.start(*options, **which) as running:
            said, _ = running.communicate(timeout=PATIENCE)
        return running.returncode, said

    def set(self, name, on=True):
        (self.folder / name).touch() if on else (self.folder / name).unlink()

    def ran(self):
        """The parts that began, in order, since the last time."""
        runs = self.folder / "runs"
        names = runs.read_text().split() if runs.exists() else []
        runs.unlink(missing_ok=True)
        return names

    def records(self):
        file = self.folder / "records" / "records.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def stand_still(self, *options, **which):
        """Start a run, and give it with the process that its second part has started and now waits beside."""
        self.set("stand still")
        running = self.start(*options, **which)
        other = self.folder / "other"
        _until(lambda: other.exists() and other.read_text())
        return running, int(other.read_text())


@pytest.fixture
def proof(tmp_path):
    return Proof(tmp_path)


def _until(fact):
    deadline = time.monotonic() + PATIENCE
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _is_alive(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_a_whole_run_leaves_a_record_of_each_part_and_a_page(proof):
    code, said = proof.run()

    assert code == 0, said
    assert proof.ran() == ["first", "second", "third"]
    assert [(each["part"], each["ok"], each["scale"]) for each in proof.records()] == [
        ("first", True, 1.0),
        ("second", True, 1.0),
        ("third", True, 1.0),
    ]
    for record in proof.records():
        assert record["commit"] == "c0de"
        assert record["seconds"] > 0
        assert {"Onward", "Python"} <= record["versions"].keys()
    page = proof.page.read_text()
    assert "**3 of 3 parts ran, at 1 of the full size: 3 passed, 0 failed, 0 did not run.**" in page
    assert "| | SQLite | Redis | all |" in page
    assert "| jobs | 1,005 | 10 | 1,015 |" in page
    assert "| kills of servers | 2 | – | 2 |" in page
    assert "| ticks missed | – | 0 | 0 |" in page
    assert "| deploys | – | – | – |" in page
    assert "All of them ran on the same code" in page


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_was_stopped_goes_on_and_ends_what_it_left_behind(proof, how):
    running, other = proof.stand_still()
    running.send_signal(how)
    said, _ = running.communicate(timeout=PATIENCE)

    assert [each["part"] for each in proof.records()] == ["first"]
    if how != signal.SIGKILL:
        assert running.returncode == 130, said
        assert not _is_alive(other)
        assert "- second (Redis)" in proof.page.read_text().partition("## Not run")[2]
    proof.set("stand still", on=False)
    proof.ran()
    code, said = proof.run()

    assert code == 0, said
    assert proof.ran() == ["second", "third"]
    assert not _is_alive(other)
    assert [each["part"] for each in proof.records()] == ["first", "second", "third"]


def test_two_parts_run_side_by_side_and_one_that_measures_runs_alone(proof):
    code, said = proof.run(parts="tests.tools.proof_sample:IN_PAIRS", at_once=2)

    assert code == 0, said
    runs = (proof.folder / "runs").read_text().splitlines()
    assert runs == ["one of two", "one of two", "ended", "ended", "measures"]
    assert sorted(each["part"] for each in proof.records()) == ["measures", "one", "the other"]


def test_a_stopped_run_ends_all_parts_that_are_at_work(proof):
    running, other = proof.stand_still(at_once=2)
    _until(lambda: sorted(each["part"] for each in proof.records()) == ["first", "third"])
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=PATIENCE)

    assert running.returncode == 130, said
    assert not _is_alive(other)
    proof.set("stand still", on=False)
    proof.ran()
    assert proof.run(at_once=2)[0] == 0
    assert proof.ran() == ["second"]


def test_two_runs_do_not_share_their_records(proof):
    running, _ = proof.stand_still()
    code, said = proof.run()

    assert (code, proof.ran()) == (1, ["first", "second"])
    assert "another run of the proof is at work" in said
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=PATIENCE)


@pytest.mark.parametrize(
    ("what", "part", "told"),
    [
        ("flaw", "second", "ticks missed 1"),
        ("raise", "third", "the server | did not start"),
        ("nonsense", "third", "what it has shown cannot be read"),
    ],
)
def test_a_part_that_fails_is_on_the_page_and_the_others_run(proof, what, part, told):
    proof.set(what)
    code, said = proof.run()

    assert code == 1, said
    assert proof.ran() == ["first", "second", "third"]
    page = proof.page.read_text()
    assert "2 passed, 1 failed" in page
    assert f"- **{part}**: " in page
    assert told in page.partition("## Failed")[2].partition("##")[0]
    assert f"FAILED {part}" in said

    assert proof.run()[0] == 1  # it has ended, and it has failed
    assert proof.ran() == []

    proof.set(what, on=False)
    assert proof.run("--failed")[0] == 0
    assert proof.ran() == [part]
    assert "3 passed, 0 failed" in proof.page.read_text()
    assert "ok, failed 1 times before" in proof.page.read_text()


def test_a_run_can_begin_afresh_and_knows_how_long_the_parts_took(proof):
    proof.run()
    proof.ran()

    assert proof.run("--afresh")[0] == 0
    assert proof.ran() == ["first", "second", "third"]
    assert len(proof.records()) == 3
    assert Records(proof.folder / "records").seconds("first") > 0


def test_some_parts_run_alone_and_the_page_says_which_did_not(proof):
    assert proof.run("--only", "third")[0] == 0
    assert proof.ran() == ["third"]
    page = proof.page.read_text()
    assert "**1 of 3 parts ran" in page
    assert [line for line in page.partition("## Not run")[2].splitlines() if line.startswith("- ")] == [
        "- first (SQLite), planned 5 s",
        "- second (Redis), planned 5 s",
    ]

    code, said = proof.run("--only", "nothing of this name")
    assert code == 1
    assert "no part has" in said


def test_the_list_shows_the_plan_and_runs_nothing(proof):
    proof.run("--only", "first")
    proof.ran()
    code, said = proof.run("--list")

    assert (code, proof.ran()) == (0, [])
    assert "ok               first (sqlite)" in said
    assert "not run          second (redis)" in said
    assert "3 parts, planned 15 s of 4 h 0 min" in said


def _change(proof, **fields):
    """Let the last record be of something else."""
    file = proof.folder / "records" / "records.jsonl"
    *before, last = proof.records()
    file.write_text("".join(f"{json.dumps(each)}\n" for each in [*before, last | fields]))


def test_records_of_other_code_do_not_count_as_ended_and_are_not_mixed_in_silence(proof):
    proof.run()
    proof.ran()
    _change(proof, code="of yesterday", commit="0123456789ab")

    assert proof.run("--only", "first")[0] == 0
    assert proof.ran() == []
    page = proof.page.read_text()
    assert "**The records are of different code**: 2 at " in page
    assert "1 at `0123456789ab" in page

    assert proof.run()[0] == 0
    assert proof.ran() == ["third"]
    assert "All of them ran on the same code" in proof.page.read_text()


def test_a_proof_of_several_days_runs_what_has_not_ended_on_any_code(proof):
    proof.run("--only", "first")
    _change(proof, code="of yesterday", commit="0123456789ab")
    proof.ran()

    assert proof.run("--missing")[0] == 0
    assert proof.ran() == ["second", "third"]
    assert "**The records are of different code**: 1 at " in proof.page.read_text()


def test_a_record_that_was_cut_off_is_of_a_part_that_has_not_ended(proof):
    proof.run()
    proof.ran()
    file = proof.folder / "records" / "records.jsonl"
    file.write_bytes(file.read_bytes()[:-40])

    assert proof.run()[0] == 0
    assert proof.ran() == ["third"]
    assert Records(proof.folder / "records").latest("third").ok


def test_real_parts_run_by_the_same_code_at_a_small_scale(proof):
    code, said = proof.run("--scale", "0.002", "--only", "threads share", parts="tools.proof_parts:PARTS")

    assert code == 0, said
    assert [(each["part"], each["engine"]) for each in proof.records()] == [
        ("threads share a file", "sqlite"),
        ("threads share memory", "memory"),
    ]
    assert "2 passed, 0 failed" in proof.page.read_text()


def test_what_is_on_trial_is_read_from_git():
    code = code_of_now()

    assert len(code.commit) == len(code.code) == 12


def test_every_proof_is_a_part_and_all_parts_fit_into_their_time():
    names = [part.name for part in PARTS]
    missing = {name.replace("_", " ") for name in proofs.__all__ if name != "Proof"} - set(names)

    assert not missing
    assert len(set(names)) == len(names)
    assert sum(part.seconds for part in PARTS) < BUDGET


def test_every_name_that_counts_as_a_total_is_counted_somewhere():
    sources = "".join(path.read_text() for path in (ROOT / "tests" / "proof").glob("*.py") if path.name != "totals.py")
    names = [name for total in (*DONE, *WRONG) for name in total.finer]

    assert len(names) == len(set(names))
    assert [name for name in names if f'"{name}"' not in sources] == []


def test_what_was_not_looked_for_is_missing_and_what_has_no_name_is_a_flaw_all_the_same():
    found = totals_of({"members": 3, "seconds": 2.5}, {"lost": 1, "unfinished": 2, "more threads": 4}, errors=1)

    assert found == {"jobs": 3, "lost": 3, OTHER: 5}
