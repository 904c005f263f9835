"""Turning errors of a driver into errors of Onward: a backend raises no others."""

from __future__ import annotations

from collections.abc import Callable

from onward.errors import BackendError

__all__ = ["Translated"]


class Translated:
    """``with Translated(...):`` lets no driver's error out.  A class, for speed: every verb uses it."""

    __slots__ = ("_kinds", "_place", "_translation")

    def __init__(
        self, place: str, kinds: tuple[type[Exception], ...], translation: Callable[[Exception, str], BackendError]
    ) -> None:
        self._place = place
        self._kinds = kinds
        self._translation = translation

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, self._kinds):
            raise self._translation(error, self._place) from error
