"""A check made of problems: the worst of them decides, and its fix is the one that is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from onward.backend import Check

__all__ = ["Problem", "verdict"]

_TOLD = 3  # problems in one line
_NAMED = 20  # subjects
_WORST_FIRST = {"fail": 0, "warn": 1}


class Problem(NamedTuple):
    """One thing that is wrong."""

    status: Literal["warn", "fail"]
    about: str  # a queue, a job, a host, a schedule
    text: str
    fix: str  # what to type


def verdict(name: str, fine: str, problems: Sequence[Problem]) -> Check:
    """Return the check of this name; without problems it is ``fine``."""
    if not problems:
        return Check(name=name, status="ok", detail=fine)
    worst = sorted(problems, key=lambda problem: _WORST_FIRST[problem.status])
    told = "; ".join(problem.text for problem in worst[:_TOLD])
    more = f"; and {len(worst) - _TOLD} more" if len(worst) > _TOLD else ""
    return Check(
        name=name,
        status=worst[0].status,
        detail=f"{told}{more}",
        fix=worst[0].fix,
        about=tuple(dict.fromkeys(problem.about for problem in worst))[:_NAMED],
    )
