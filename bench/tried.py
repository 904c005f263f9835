"""What was tried for goals that were missed, by part and figure: the page shows it where they are missed."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["TRIED"]

TRIED: Mapping[str, Mapping[str, str]] = {}
