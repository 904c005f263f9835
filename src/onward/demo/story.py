"""What happens in the shop: a stream of orders, and now and then a special job."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onward.client.bound_job import JobHandle

__all__ = ["Story"]

_BEAT = 0.1  # seconds between two orders
_STOCK_EVERY = 8.0  # seconds: so there is always something to look at


class Story:
    """Enqueues from a thread of its own, for so many seconds or until it is stopped."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = float("inf") if seconds is None else seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="onward-demo", daemon=True)
        self._special: dict[str, JobHandle[Any]] = {}  # the jobs that are worth a line each
        self._told: dict[str, str] = {}
        self._crashes: Counter[str] = Counter()
        self.ids: set[str] = set()
        self.duplicates = 0
        self.failed: Exception | None = None

    def start(self) -> None:
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether nothing more will be enqueued."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def news(self) -> Iterator[str]:
        """Yield what became of the special jobs since the last call."""
        for name, handle in list(self._special.items()):
            record = handle.record()
            if record.crashes > self._crashes[name] and not record.is_finished:
                self._crashes[name] = record.crashes
                yield f"{name}: the process it ran in was {record.errors[-1].message}; now it runs in one of its own"
            told = f"{name}: {record.state}{f', {record.reason}' if record.reason else ''}"
            if self._told.get(name) != told:
                self._told[name] = told
                yield told

    def _tell(self) -> None:
        try:
            self._open_shop()
            began = time.monotonic()
            surprises = self._surprises()
            due, surprise = next(surprises)
            order = 0
            while (passed := time.monotonic() - began) < self._seconds and not self._stopped.wait(_BEAT):
                order += 1
                self._order(order)
                if passed >= due:
                    surprise()
                    due, surprise = next(surprises)
            self._special["follow_market"].cancel("the shop closes")  # it runs until it is cancelled
        except Exception as error:  # noqa: BLE001  the demo's main thread raises it
            self.failed = error

    def _open_shop(self) -> None:
        from onward.demo import shop

        self._note(shop.count_stock.enqueue(16), "count_stock")
        self._note(shop.follow_market.enqueue(), "follow_market")
        self._note(shop.remind.using(delay=2).enqueue("ada"), "remind, in 2 s")
        called_off = self._note(shop.remind.using(delay="1h").enqueue("bob"), "remind, in an hour")
        called_off.cancel("bob has paid")
        for _ in range(5):  # an impatient customer
            self._note(shop.send_receipt.using(unique_key="receipt:0", delay=1).enqueue(0))

    def _order(self, order: int) -> None:
        from onward.demo import shop

        self._note(shop.charge_card.enqueue(order))
        self._note(shop.send_receipt.enqueue(order))
        if order % 4 == 0:
            self._note(shop.refresh_price.enqueue(("teapot", "samovar", "kettle")[order // 4 % 3]))

    def _surprises(self) -> Iterator[tuple[float, Callable[[], object]]]:
        """Yield what happens when, in seconds since the shop opened."""
        from onward.demo import shop

        yield 1.0, lambda: self._note(shop.import_feed.enqueue(), "import_feed")
        yield 2.5, lambda: self._note(shop.refund.enqueue(4711), "refund")
        yield 3.5, lambda: self._special["follow_market"].cancel("the market has closed")
        due = _STOCK_EVERY
        while True:
            yield due, lambda: self._note(shop.count_stock.enqueue(16))
            due += _STOCK_EVERY

    def _note(self, handle: JobHandle[Any], name: str | None = None) -> JobHandle[Any]:
        if handle.created:
            self.ids.add(handle.id)
        else:
            self.duplicates += 1
        if name is not None:
            self._special[name] = handle
        return handle
