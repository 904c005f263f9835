"""How errors of a driver leave a backend: as errors of Onward, and as nothing else."""

from __future__ import annotations

from collections.abc import Callable

from onward.errors import BackendError

__all__ = ["Translated"]


class Translated:
    """``with Translated(...):`` lets no driver's error out.  Written out: every call of every verb goes through it."""

    __slots__ = ("_kinds", "_place", "_translation")

    def __init__(
        self, place: str, kinds: tuple[type[Exception], ...], translation: Callable[[Exception, str], BackendError]
    ) -> None:
        self._place = place
        self._kinds = kinds
        self._translation = translation

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, self._kinds):
            raise self._translation(error, self._place) from error
