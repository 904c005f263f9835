"""Modules that are imported at the first use of one of their names: ``from onward.base.lazy import asyncio``.

asyncio brings ssl and selectors along and takes a good part of the time in which Onward is imported, but most producers and
many workers have no event loop.  The others are needed for single features, or for errors.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = [
    "asyncio",
    "difflib",
    "hashlib",
    "hmac",
    "platform",
    "secrets",
    "shutil",
    "sqlite3",
    "subprocess",
    "tempfile",
]


class _Lazy:
    """Stands for a module.  Names are looked up in it each time: a program may replace them, as gevent and Sentry do."""

    def __init__(self, module: str) -> None:
        self._name = module

    def __getattr__(self, name: str) -> Any:
        if name == "_module":
            self._module = importlib.import_module(self._name)
            return self._module
        return getattr(self._module, name)


if TYPE_CHECKING:
    import asyncio
    import difflib
    import hashlib
    import hmac
    import platform
    import secrets
    import shutil
    import sqlite3
    import subprocess
    import tempfile
else:
    asyncio, difflib, hashlib, hmac, platform, secrets, shutil, sqlite3, subprocess, tempfile = map(_Lazy, __all__)
