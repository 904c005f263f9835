"""A broker with a store beside it: the broker hands jobs out, the store knows what they are."""

from onward.backends.companion.backend import AccompaniedBackend

__all__ = ["AccompaniedBackend"]
