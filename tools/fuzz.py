"""Hunt for input that does what is not documented, led by which code it reaches.

    python -m tools.fuzz                 every target for a minute
    python -m tools.fuzz url --seconds 600

The targets and the corpus are those of `tests/security`.  What is found is written into the corpus, where `make test`
runs it from then on.  Needs atheris, which `make fuzz` installs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
_HUNT = "--hunt"  # what the process is told that does it


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == [_HUNT]:
        _hunt(*arguments[1:])
    from tests.security.fuzzing import TARGETS

    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description="Hunt for input that breaks something.")
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"one of {', '.join(TARGETS)}; all, if none is named"
    )
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    options = parser.parse_args(arguments)
    if unknown := set(options.targets) - set(TARGETS):
        parser.error(f"there is no target {', '.join(sorted(unknown))}")
    found = [target for target in options.targets or TARGETS if not _survives(target, options.seconds)]
    print(f"broken: {', '.join(found)}: see tests/security/corpus" if found else "nothing was found")
    return 1 if found else 0


def _survives(target: str, seconds: int) -> bool:
    """Let a process of its own hunt: whatever it finds ends it."""
    from tests.security.fuzzing import CORPUS

    with tempfile.TemporaryDirectory() as new:
        command = [sys.executable, "-m", "tools.fuzz", _HUNT, target, new, str(CORPUS / target)]
        limits = [f"-max_total_time={seconds}", "-timeout=10", "-max_len=4096", f"-artifact_prefix={CORPUS / target}/"]
        return subprocess.run([*command, *limits], cwd=ROOT, check=False).returncode == 0


def _hunt(target: str, *settings: str) -> None:
    """Does not return."""
    import atheris

    with atheris.instrument_imports(include=["onward"]):
        from tests.security.fuzzing import TARGETS

    atheris.Setup([sys.argv[0], *settings], TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
