"""`onward worker` with as many processes as the configuration says, on the store that the bench names."""

from __future__ import annotations

from bench.contenders.on_named_store import NamedStore
from bench.contenders.onward_shop import Shop
from onward import Onward

CONFIGS = {f"{count} process{'es' if count > 1 else ''}": (count, True) for count in (1, 2, 8)}
_store = NamedStore("growing")
reset, filled = _store.reset, _store.filled


_shop = Shop(__name__, _store.url, CONFIGS)
opened, processes, serve = _shop.opened, _shop.processes, _shop.serve
enqueue, bulk = _shop.enqueue, _shop.bulk


def __getattr__(name: str) -> Onward:
    """``jobs``, for the worker."""
    if name == "jobs":
        return _shop.application.jobs
    raise AttributeError(name)
