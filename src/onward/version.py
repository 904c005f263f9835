"""The version, where everything below the package root can read it."""

import os

__all__ = ["__version__", "build"]

__version__ = "0.1.0"


def build() -> str:
    """Return the name of the build that this process runs: ``ONWARD_BUILD``, or the version."""
    return os.environ.get("ONWARD_BUILD", "")[:100] or __version__
