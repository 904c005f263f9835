"""Write the page of the backend contract from the texts of the contract's own modules, with examples around them.

python -m tools.backend_contract check    exit 1 and say so, if the page is out of date
python -m tools.backend_contract write    bring it up to date
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from onward.contract import (
    audit,
    backend,
    capabilities,
    companion,
    flows,
    inspection,
    notes,
    schedules,
    transactions,
    transfer,
    values,
)
from onward.contract.backend import Backend
from onward.contract.capabilities import Capabilities
from onward.job import states
from tools.options_reference import documented

PAGE = Path("docs/backend-contract.md")
PARTS = {
    "Notes": notes,
    "Schedules": schedules,
    "Flows": flows,
    "Audit trail": audit,
    "Transactions": transactions,
    "Transfer between stores": transfer,
    "Companion": companion,
}

INTRODUCTION = """\
<!-- written by `python -m tools.backend_contract write` -->

# The backend contract

A backend is where jobs are stored. This page says what every backend does, verb by verb. Its text comes from
[`contract/backend.py`](../src/onward/contract/backend.py) and the modules beside it; the [glossary](glossary.md) explains
the words, and a suite of tests that ships with the package checks every backend.
"""

PICTURE = "Every arrow is in [The life of a job](life-of-a-job.md).\n"

CONVENIENCES = """\
### Conveniences

`claim(Claim)` opens or renews its own session and makes a turn that only claims. `settle`, `ack`, `skip`, `nack`, `abandon`,
`snooze`, `park`, `cancelled` and `release` are turns that only settle. A backend that subclasses `Backend` inherits them.
"""

FENCING_EXAMPLE = """\
```python
from datetime import timedelta
from onward import Onward
from onward.backend import Claim
from onward.testing import FakeClock

clock = FakeClock()
jobs = Onward("memory://", clock=clock)


@jobs.job
def work() -> None: ...


def claim(owner: str):
    return jobs.backend.claim(Claim(queues=("default",), owner=owner, lease_for=timedelta(seconds=30)))


work.enqueue()
(slow,) = claim("slow")
clock.advance(31)  # the session was not renewed
jobs.reap()
(fresh,) = claim("fresh")

print(fresh.token > slow.token)
print(jobs.backend.ack(slow).answer)  # too late
print(jobs.backend.ack(fresh).answer)
print(jobs.backend.ack(fresh).answer)  # sent again, as after a lost answer
```

```text output
True
lease_lost
applied
already_applied
```
"""

INSPECTION = """\
Most stores also have the protocol `Inspection`, for looking at jobs and for the requests of people. Where a store lacks it,
`Onward` answers every such request with `Unsupported`. Brokers may have `Counting` or `DeadLettering` instead.
"""

CAPABILITIES = """\
`memory://` and `sync://` declare neither `durable` nor `shared`; SQLite declares all of them. Brokers lack most of the lower
half.
"""

WRITING = """\
## Writing a backend

1. Subclass [`Backend`](../src/onward/contract/backend.py) and `Inspection`. Read the
   [memory backend](../src/onward/backends/memory/backend.py) first: it is the contract in its plainest form.
2. Reach no server in the constructor. Connect where a verb needs a connection, again if that failed before, and let
   `connect()` do it early. Wait no longer than `onward.base.clock.time_left(...)` allows.
3. Take a `clock` for tests. In production use the store's clock.
4. Let no driver's error out. Raise `BackendUnavailable` where trying again may help, `BackendRefused` where it cannot,
   `BackendMisconfigured` where a person has to change a setting.
5. Declare in `capabilities` what your backend cannot do.
6. Run the suite.

`Onward(url)` chooses a backend by the URL's scheme. This version knows `memory`, `sync`, `sqlite`, `postgresql`,
`mysql`, `redis`, `beanstalk` and `servicebus`; there is no way yet to add one from outside.

The suite needs pytest. Two fixtures make it run: `backend`, an empty store that goes by `clock`, and `open_client`, which
opens the same store again. A store that one process has for itself returns the same object. A third, `lose_session(owner)`,
is optional: it deletes a session's row without the backend, for the tests of orphans.

```python title="test_my_store.py"
import pytest
from onward.backends.memory import MemoryBackend
from onward.testing.contract import BackendContract


class TestMyStore(BackendContract):
    @pytest.fixture
    def backend(self, clock):
        return MemoryBackend(clock=clock)

    @pytest.fixture
    def open_client(self, backend):
        return lambda: backend
```

```toml title="pyproject.toml"
[tool.pytest.ini_options]
markers = ["promise: the numbered promises of Onward that a test shows"]
```

```console
$ pytest -q test_my_store.py
...
... passed...
```

A test that needs a capability the backend does not declare is skipped, and says which.
"""


def main(arguments: Sequence[str] | None = None, root: Path = Path()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.backend_contract", description=f"Check or write {PAGE}.")
    parser.add_argument("command", choices=["check", "write"])
    command = parser.parse_args(arguments).command

    page, current = root / PAGE, "\n".join(_page())
    if command == "write":
        page.write_text(current, encoding="utf-8")
    elif not page.exists() or page.read_text(encoding="utf-8") != current:
        print(f"{PAGE}: out of date, run `python -m tools.backend_contract write`", file=sys.stderr)
        return 1
    return 0


def _page() -> Iterator[str]:
    sections = _sections(backend)
    yield INTRODUCTION
    yield f"```text\n{_picture()}\n```\n"
    yield PICTURE
    yield f"## Conventions\n\n{sections.pop('Conventions')}\n"
    yield "## The verbs\n"
    for verb in filter(_is_verb, _methods(Backend)):
        yield f"### {verb.__name__}\n"
        yield f"```text\n{_call(verb)} -> {inspect.signature(verb).return_annotation}\n```\n"
        yield f"{_text(verb)}\n"
    yield CONVENIENCES
    for heading, text in sections.items():
        yield f"## {heading}\n\n{text}\n"
        if heading == "Fencing":
            yield FENCING_EXAMPLE
    yield from _values()
    yield f"## Inspection\n\n{INSPECTION}"
    yield from _protocols(inspection)
    for heading, part in PARTS.items():
        yield f"## {heading}\n\n{_text(part)}\n"
        yield from _protocols(part)
    yield f"## Capabilities\n\n{_text(Capabilities)}\n"
    yield from _table(("capability", "a backend that declares it"), list(documented(Capabilities).items()))
    yield CAPABILITIES
    yield from _protocols(capabilities)
    yield WRITING


def _sections(module: ModuleType) -> dict[str, str]:
    """Return the parts of a module's text that have headings."""
    _, *parts = re.split(r"^## ", _text(module), flags=re.MULTILINE)
    return {heading: text.strip() for heading, _, text in (part.partition("\n") for part in parts)}


def _picture() -> str:
    """Return the drawing of the states from the text of their module."""
    drawn = [line for line in inspect.cleandoc(states.__doc__ or "").splitlines() if line.startswith("    ")]
    return inspect.cleandoc("\n" + "\n".join(drawn))


def _values() -> Iterator[str]:
    yield "## Values\n"
    rows = [(f"{name}({', '.join(kind.__struct_fields__)})", _text(kind)) for name, kind in _classes(values)]
    yield from _table(("value", "meaning"), rows)


def _protocols(module: ModuleType) -> Iterator[str]:
    """Describe the protocols of a module, each method with its text."""
    for name, kind in _classes(module):
        if getattr(kind, "_is_protocol", False):
            yield f"**`{name}`**: {_line(kind)}\n"
            yield from (
                f"- `{_call(method)}`" + (f": {_line(method)}" if method.__doc__ else "") for method in _methods(kind)
            )
            yield ""


def _classes(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the public classes of a module, in the order in which it defines them."""
    for name, kind in vars(module).items():
        if inspect.isclass(kind) and kind.__module__ == module.__name__ and not name.startswith("_"):
            yield name, kind


def _methods(kind: type) -> Iterator[FunctionType]:
    return (each for name, each in vars(kind).items() if inspect.isfunction(each) and not name.startswith("_"))


def _is_verb(method: FunctionType) -> bool:
    """Return whether a store has to say what a method does; the conveniences do it with other methods."""
    return getattr(method, "__isabstractmethod__", False) or method.__name__ == "connect"


def _call(method: FunctionType) -> str:
    """Return a call of a method, with its parameters and their defaults but without types.

    >>> _call(Backend.enqueue)
    'enqueue(envelopes, *, retried=False)'
    """
    signature = inspect.signature(method)
    own = [each.replace(annotation=each.empty) for each in signature.parameters.values() if each.name != "self"]
    return f"{method.__name__}{signature.replace(parameters=own, return_annotation=signature.empty)}"


def _text(thing: object) -> str:
    """Return a docstring as Markdown: one blank after a sentence, single backquotes."""
    lines = inspect.cleandoc(thing.__doc__ or "").splitlines()
    return "\n".join(line if line.startswith("    ") else _plain(line) for line in lines)


def _line(thing: object) -> str:
    return " ".join(_text(thing).split())


def _plain(text: str) -> str:
    return re.sub(r"``(.+?)``", r"`\1`", re.sub(r"(?<=\S)  +", " ", text))


def _table(headings: tuple[str, str], rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield "|---|---|"
    for code, meaning in rows:
        yield f"| `{code}` | {' '.join(_plain(meaning).split()).replace('|', chr(92) + '|')} |"
    yield ""


if __name__ == "__main__":
    sys.exit(main())
