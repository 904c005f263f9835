"""Two systems at once: ``ONWARD_CELERY_TASKS="mail.*,reports.daily"`` says which tasks are Onward's; others stay Celery's.

Unset, all of them are Onward's.  It is read where a task is declared, so going back is the same variable and a restart.
"""

from __future__ import annotations

import os
from typing import Any

from onward.base.names import matcher
from onward.errors import OptionError

__all__ = ["VARIABLE", "all_are_onwards", "celery_itself", "is_onwards"]

VARIABLE = "ONWARD_CELERY_TASKS"


def all_are_onwards() -> bool:
    """Return whether no task is left to Celery."""
    return VARIABLE not in os.environ


def is_onwards(task: str) -> bool:
    """Return whether a task of this name runs on Onward."""
    chosen = os.environ.get(VARIABLE)
    if chosen is None:
        return True
    return any(matcher(pattern.strip())(task) for pattern in chosen.split(",") if pattern.strip())


def celery_itself(task: str) -> Any:
    """Return Celery, for a task that stays there."""
    try:
        import celery
    except ImportError:
        raise OptionError(
            f"{VARIABLE} leaves {task} to Celery, which is not installed: install celery, add the task to {VARIABLE}, or "
            f"unset it"
        ) from None
    return celery
