"""What happens in the busy shop, besides the orders: all that a page of the dashboard can show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

from onward import Secret
from onward.demo.story import Story

__all__ = ["BusyStory"]

_CARRIERS = ("northwind", "tern", "albatross")
_CATALOGUE_EVERY = 20.0  # seconds


class BusyStory(Story):
    """Enqueues the orders of the shop, and jobs that wait, are limited, fail in groups or belong to a workflow."""

    def _open_shop(self) -> None:
        super()._open_shop()
        from onward.demo import busy_shop as shop

        shop.jobs.pause("letters", by="ada", reason="the printer is out of paper")
        for number in range(12):
            self._note(shop.jobs.enqueue("print_letter", {"customer": number}, queue="letters"))
            self._note(shop.fetch_photo.enqueue(f"item-{number}"))
        for number in range(6):
            self._note(shop.pay_out.enqueue(100 + number, Secret(f"DE00 1234 {number:04}")))
            self._note(shop.import_address.enqueue({"name": f"customer {number}"}))
        self._note(shop.nightly_stock.using(delay="3h").enqueue("south"))
        self._catalogue(0)

    def _order(self, order: int) -> None:
        super()._order(order)
        from onward.demo import busy_shop as shop

        if order % 5 == 0:
            self._note(shop.book_parcel.enqueue(_CARRIERS[order // 5 % 3], order))
        if order % 10 == 0:
            self._note(shop.ask_for_quote.enqueue(_CARRIERS[order // 10 % 3], order / 10))
        if order % 50 == 0:
            self._note(shop.pay_out.enqueue(order, Secret(f"DE00 5678 {order:04}")))

    def _surprises(self) -> Iterator[tuple[float, Callable[[], object]]]:
        catalogues = ((_CATALOGUE_EVERY * number, number) for number in count(1))
        due, number = next(catalogues)
        for at, surprise in super()._surprises():
            while due <= at:
                yield due, partial(self._catalogue, number)
                due, number = next(catalogues)
            yield at, surprise

    def _catalogue(self, number: int) -> None:
        """Enqueue a workflow: an archive, its photos at once, then the catalogue, then a mail."""
        from onward.demo import busy_shop as shop

        name = f"catalogue-{number}"
        flow = shop.jobs.flow(name)
        archive = flow.add(shop.unpack, f"{name}.zip")
        photos = flow.map(shop.resize, [(f"photo-{n}", 640) for n in range(6)], after=archive)
        published = flow.add(shop.publish, name, after=photos)
        flow.add(shop.tell_editors, name, after=published)
        flow.enqueue()
