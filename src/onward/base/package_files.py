"""Where the files of a package lie.

`importlib.resources` would do it for packages in archives, too, but brings `tempfile`, `shutil` and the compression modules
along: 0.4 MB in every process that opens a store.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

__all__ = ["folder_of"]


def folder_of(package: str) -> Path:
    """Return the folder of a package.

    >>> folder_of("onward.base").joinpath("package_files.py").exists()
    True
    """
    return Path(import_module(package).__path__[0])
