"""What a person is told about a server that no connection could be opened to: why, and what to do."""

from __future__ import annotations

from onward.errors import BackendError, BackendMisconfigured, BackendUnreachable

__all__ = ["unreachable_error"]


def unreachable_error(place: str, cause: object, *, refused: bool = False) -> BackendError:
    """Return the error to raise; ``refused``: the server answered, or would, and trying again does not help."""
    told = f"{place}: cannot be reached: {str(cause).rstrip('.')}"
    if refused:
        return BackendMisconfigured(
            f"{told}: correct the url, or what the server allows (`onward config` names its source)"
        )
    return BackendUnreachable(f"{told}: start the server, or correct the url (`onward config` names its source)")
