"""Without the parts of Linux programs enqueue and run jobs on their own threads; the supervisor says what it needs."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PRETENDING, PROGRAM = HERE / "pretending.py", HERE / "program.py"


def run_on(system, program, *arguments):
    command = [sys.executable, PRETENDING, system, program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.promise("S171")
@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_a_program_enqueues_and_runs_jobs_on_its_threads(system, tmp_path):
    ran = run_on(system, PROGRAM, "memory://", f"sqlite:///{tmp_path}/jobs.db")

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == system


@pytest.mark.promise("S171")
def test_the_command_that_needs_posix_says_so_and_what_to_do(tmp_path):
    command = tmp_path / "command.py"
    command.write_text("import sys\nfrom onward.cli import main\nsys.argv[:3] = ['onward']\nsys.exit(main())\n")

    ran = run_on("win32", command, "worker", "shop:jobs")

    assert ran.returncode == 3
    assert ran.stderr == (
        "error: `onward worker` needs a POSIX system: run jobs on threads of your program, `with jobs.worker(): ...`\n"
    )


def test_what_is_taken_away_is_missed(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import resource\n")

    ran = run_on("win32", program)

    assert ran.returncode == 1
    assert "No module named 'resource'" in ran.stderr
