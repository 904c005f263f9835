"""Peers as they can be had: one that is not installed here, or does not run, is left out, and the page says so."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import measure
from bench.measure import Contender
from bench.rounds import say


def later(peers: Path) -> Path:
    """The later interpreter beside the one of the peers, for those that ask for one."""
    return peers.parent.parent / "later" / "bin" / "python"


def installed(peers: Sequence[Contender]) -> tuple[list[Contender], dict[str, str]]:
    """Who can be measured here; of the others, why not."""
    there, missing = [], {}
    for each in peers:
        try:
            each.ask("configs")
        except (RuntimeError, FileNotFoundError) as error:
            say(f"  {each.name} is left out: {error}")
            missing[each.name] = "it could not be installed"
        else:
            there.append(each)
    return there, missing


def chosen(
    contenders: Sequence[Contender], jobs: Mapping[str, int], missing: dict[str, str]
) -> tuple[dict[str, str], list[Contender]]:
    """The fastest configuration of each, and who has one: a peer that runs none of its jobs is missing, too."""
    configs, there = {}, []
    for each in contenders:
        try:
            configs[each.name] = measure.fastest(each, jobs[each.name] // 2, say)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            if each.is_ours:
                raise
            say(f"  {each.name} is left out: {error}")
            missing[each.name] = "its worker did not finish a trial"
        else:
            there.append(each)
    return configs, there
