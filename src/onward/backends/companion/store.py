"""The type of a store beside a broker."""

from __future__ import annotations

from abc import ABC

from onward.backend import Backend
from onward.contract.companion import Companion

__all__ = ["CompanionStore"]


class CompanionStore(Backend, Companion, ABC):
    """A backend from which jobs can be claimed by their ids.  Only a type: stores do not derive from it."""
