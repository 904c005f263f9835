"""What the dead letters of an application are repaired with."""

from __future__ import annotations

from typing import NamedTuple

from onward.operate.canary import Canary
from onward.operate.editing import Editor
from onward.operate.finding import Finder

__all__ = ["Triage"]


class Triage(NamedTuple):
    """The canary and the editor of one application, and what finds its jobs."""

    canary: Canary
    editor: Editor
    finder: Finder
