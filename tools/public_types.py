"""Check that the types of all public names are known: to people who use another type checker than ours, too.

python -m tools.public_types    exit 1, if the type of a name that the reference lists has to be guessed

``basedpyright --verifytypes`` is asked about the whole package, and its answers about the names of docs/reference/api.md,
their members and their parameters are judged.  Names of internal classes are not, nor what is guessed because of one.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onward

REFERENCE = Path("docs/reference/api.md")

# Their methods are tests, whose parameters are fixtures and arrive by name; those who subclass them call none.
TESTS = ("onward.testing.contract.", "onward.testing.machine.")
# What follows from a type elsewhere, which is judged there if it is public; and what says nothing of types.
FOLLOWS = ("partially unknown", "No docstring found", "default values in function")


def main(root: Path = Path()) -> int:
    if shutil.which("basedpyright", path=str(Path(sys.executable).parent)) is None:
        print("basedpyright is not installed: make setup")
        return 1
    names = sorted(_public((root / REFERENCE).read_text(encoding="utf-8")))
    symbols = [symbol for symbol in _symbols() if is_public(symbol["name"], names)]
    guessed = [(symbol["name"], message) for symbol in symbols for message in own_faults(symbol)]
    for name, message in guessed:
        print(f"{name}: {message}")
    print(
        f"the types of {len(symbols) - len({name for name, _ in guessed}):,} of {len(symbols):,} public names are known"
    )
    return 1 if guessed or not symbols else 0


def is_public(symbol: str, names: Sequence[str]) -> bool:
    """Tell whether the reference lists a symbol, or what it belongs to."""
    if symbol.startswith(TESTS) or any(part.startswith("_") and not part.endswith("__") for part in symbol.split(".")):
        return False
    return any(symbol == name or symbol.startswith(f"{name}.") for name in names)


def own_faults(symbol: Mapping[str, Any]) -> list[str]:
    """Return why a type has to be guessed, as far as the symbol itself is the reason."""
    if symbol["isTypeKnown"] and not symbol.get("isTypeAmbiguous"):
        return []
    messages = [re.sub(r"\s+", " ", found["message"]) for found in symbol["diagnostics"]]
    return [message for message in messages if not any(words in message for words in FOLLOWS)]


def _public(reference: str) -> Iterator[str]:
    """Yield the full names of what users import, and of all else that the reference lists."""
    for name in onward.__all__:
        value = getattr(onward, name)
        yield f"{value.__module__}.{value.__qualname__}" if hasattr(value, "__qualname__") else f"onward.{name}"
    for name in re.findall(r"^::: (onward\.\S+)$", reference, re.MULTILINE):
        try:
            module = importlib.import_module(name)
        except ImportError:  # a class
            yield name
            continue
        for member in getattr(module, "__all__", ()):
            value = getattr(module, member)
            yield f"{getattr(value, '__module__', name)}.{getattr(value, '__qualname__', member)}"
            yield f"{name}.{member}"


def _symbols() -> list[dict[str, Any]]:
    # In a folder without configuration: mypy's settings and ours are not those of a user.
    with tempfile.TemporaryDirectory() as empty:
        ran = subprocess.run(
            [
                str(Path(sys.executable).with_name("basedpyright")),
                "--verifytypes",
                "onward",
                "--ignoreexternal",
                "--outputjson",
            ],
            cwd=empty,
            env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
    answer = json.loads(ran.stdout)
    symbols: list[dict[str, Any]] = answer.get("typeCompleteness", {}).get("symbols", [])
    if not symbols:
        print(ran.stdout, ran.stderr)
    return symbols


if __name__ == "__main__":
    sys.exit(main())
