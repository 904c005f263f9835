"""What a broker's companion must be able to do."""

from __future__ import annotations

from abc import ABC

from onward.backend import Backend
from onward.contract.companion import Companion

__all__ = ["CompanionStore"]


class CompanionStore(Backend, Companion, ABC):
    """A backend that can be asked for jobs by their ids.  A type: stores have these verbs and do not derive from it."""
