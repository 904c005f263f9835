"""How shared code speaks to a database: statements by name, whose answers are read when they are needed."""

from __future__ import annotations

from typing import Any, Protocol

from onward.backends.sql.rows import Row

__all__ = ["Answer", "Asking"]


class Answer(Protocol):
    """The answer to a statement."""

    def rows(self) -> list[Row]: ...

    def value(self) -> Any: ...


class Asking(Protocol):
    """A transaction of any dialect."""

    def ask(self, name: str, **parameters: object) -> Answer: ...
