"""The version, where everything below the package root can read it."""

__all__ = ["__version__"]

__version__ = "0.1.0"
