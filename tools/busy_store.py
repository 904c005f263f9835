"""A store in which every page of the dashboard has something to show, made at once: for pictures and for browser tests.

What needs time happens on a clock that starts two hours ago and ends now.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from onward import Exponential, JobContext, Limit, NoDelay, Onward, Secret
from onward.backend import Claim, Sample, Session, Turn
from onward.contract.description import WorkerDescription
from onward.contract.samples import MINUTE
from onward.operate.series.measured import Measured, QueueLevel
from onward.telemetry.numbers import BUCKETS, Histogram, Numbers
from onward.testing import FakeClock
from onward.version import __version__

__all__ = ["SECRET", "Seen", "Shop", "fill"]

SECRET = "DE00-hunter2-4711"  # noqa: S105  what no page may show
_QUEUES = ("mail", "cards", "carriers", "photos", "reports")
_ELSEWHERE = "worker-7"


class Seen(NamedTuple):
    """The ids of jobs that are worth a look."""

    done: str
    retried: str  # waits for its third run
    dead: str  # one of six that died of the same
    group: str  # these six: the job and the fingerprint
    editable: str  # dead because an argument is missing
    crashed: str
    cancelled: str
    later: str
    due: str
    paused: str  # in a queue that is paused
    limited: str  # waits for a slot
    running: str
    flow: str


class Shop:
    """An application with jobs that go well, fail, wait and belong together."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.jobs = Onward(url, **settings)
        self.broken = True  # whether the bank is
        self._define_money()
        self._define_mail()
        self._define_parcels()
        self._define_reports()
        self._define_photos()

    def _define_money(self) -> None:
        @self.jobs.job(queue="cards", max_retries=5, retry=Exponential(base=60, max=900))
        def charge_card(order: int) -> None:
            raise ConnectionError(f"the bank does not answer about {order}")

        @self.jobs.job(queue="cards", max_retries=1, retry=NoDelay())
        def pay_out(seller: int, iban: Secret[str]) -> str:
            if self.broken:
                raise TimeoutError(f"the bank did not confirm {iban.reveal()} of seller {seller}")
            return f"seller {seller} is paid"

        self.charge_card, self.pay_out = charge_card, pay_out

    def _define_mail(self) -> None:
        @self.jobs.job(queue="mail")
        def send_receipt(order: int, customer: str = "ada") -> str:
            return f"receipt {order} sent to {customer}"

        @self.jobs.job(queue="mail")
        def import_address(row: dict[str, str]) -> str:
            return row["street"]

        self.send_receipt, self.import_address = send_receipt, import_address

    def _define_parcels(self) -> None:
        @self.jobs.job(queue="carriers", limit=Limit(running=1, by="carrier"))
        def book_parcel(carrier: str, parcel: int) -> str:
            return f"{carrier} takes parcel {parcel}"

        @self.jobs.job(queue="carriers", max_crashes=1)
        def import_feed(url: str) -> str:
            return f"{url} imported"

        self.book_parcel, self.import_feed = book_parcel, import_feed

    def _define_reports(self) -> None:
        @self.jobs.schedule("30 2 * * *", name="nightly-stock", tz="Europe/Berlin")
        @self.jobs.job(queue="reports")
        def count_stock(ctx: JobContext, region: str = "north") -> str:
            return f"the stock of {region} at {ctx.scheduled_for}"

        @self.jobs.schedule("@every 10m", name="follow-orders")
        @self.jobs.job(queue="reports")
        def follow_orders() -> int:
            return 7

    def _define_photos(self) -> None:
        @self.jobs.job(queue="photos")
        def unpack(archive: str) -> str:
            return f"{archive} unpacked"

        @self.jobs.job(queue="photos")
        def resize(photo: str, width: int) -> str:
            return f"{photo}-{width}.webp"

        @self.jobs.job(queue="photos")
        def publish(ctx: JobContext, catalogue: str) -> str:
            return f"{catalogue} with {len(list(ctx.results_of(resize)))} photos"

        self.unpack, self.resize, self.publish = unpack, resize, publish

    def catalogue(self, name: str) -> str:
        """Enqueue a workflow; returns its id."""
        flow = self.jobs.flow(name)
        archive = flow.add(self.unpack, f"{name}.zip")
        photos = flow.map(self.resize, [(f"photo-{n}", 640) for n in range(5)], after=archive)
        flow.add(self.publish, name, after=photos)
        return flow.enqueue().id


def fill(url: str, *, series: bool = False) -> Seen:
    """Fill an empty store, up to now."""
    now = datetime.now(UTC)
    clock = FakeClock(now - timedelta(hours=2))
    shop = Shop(url, clock=clock)
    with shop.jobs:
        if series:
            _fill_series(shop.jobs, clock, until=now)
        clock.set(now - timedelta(minutes=5))
        ended = _ended(shop, clock)
        clock.set(now - timedelta(minutes=1))
        return Seen(**ended, **_live(shop, clock))


def _ended(shop: Shop, clock: FakeClock) -> dict[str, str]:
    """Let jobs end in every way."""
    jobs = shop.jobs
    done = shop.send_receipt.enqueue_many([(order,) for order in range(40)])[0]
    dead = shop.pay_out.enqueue_many([(seller, Secret(SECRET)) for seller in range(6)])[0]
    editable = shop.import_address.enqueue({"name": "ada"})
    crashed = shop.import_feed.enqueue("https://feed.example/items")
    jobs.backend.claim(Claim(queues=("carriers",), owner="gone", lease_for=timedelta(seconds=10)))
    clock.advance(11)
    jobs.reap()
    jobs.drain(*_QUEUES)
    retried = shop.charge_card.enqueue(4711)
    jobs.drain("cards")
    clock.advance(100)
    jobs.drain("cards")
    cancelled = shop.send_receipt.using(delay="1h").enqueue(99)
    cancelled.cancel("the order was called off", by="ada")
    shop.catalogue("spring-catalogue")
    jobs.drain("photos")
    fingerprint = next(group.fingerprint for group in jobs.dead_letters.groups() if group.job == shop.pay_out.name)
    return {
        "done": done.id, "dead": dead.id, "group": f"pay_out/{fingerprint}", "editable": editable.id,
        "crashed": crashed.id, "retried": retried.id, "cancelled": cancelled.id,
    }  # fmt: skip


def _live(shop: Shop, clock: FakeClock) -> dict[str, str]:
    """Leave jobs in every state that is not final, and a worker elsewhere that runs one."""
    jobs = shop.jobs
    running = shop.book_parcel.enqueue("tern", 1)
    limited = shop.book_parcel.enqueue("tern", 2)
    described = WorkerDescription(
        queues=_QUEUES, concurrency=10, jobs=tuple(jobs.names), build="2026.11.1", started=clock.micros()
    )
    session = Session(
        owner=_ELSEWHERE, lease_for=timedelta(hours=1), host="host-7", pid=4242, version=__version__,
        description=described.encoded(),
    )  # fmt: skip
    jobs.backend.open_session(session)
    jobs.backend.turn(Turn(owner=_ELSEWHERE, claim=Claim(queues=("carriers",), limit=1)))
    flow = shop.catalogue("autumn-catalogue")
    jobs.process_once("photos")
    due = shop.send_receipt.enqueue_many([(order,) for order in range(100, 130)])[0]
    later = shop.send_receipt.using(delay="3h").enqueue(200)
    paused = jobs.enqueue("print_letter", {"customer": 7}, queue="letters")
    jobs.pause("letters", by="ada", reason="the printer is out of paper")
    return {
        "running": running.id, "limited": limited.id, "due": due.id, "later": later.id, "paused": paused.id, "flow": flow,
    }  # fmt: skip


def _fill_series(jobs: Onward, clock: FakeClock, *, until: datetime) -> None:
    """Store what workers would have counted in every minute, with a new build in the middle."""
    minutes = int((until - clock.now()).total_seconds() // 60)
    for number in range(minutes):
        minute = clock.micros() - clock.micros() % MINUTE
        sample = _minute(number, build="2026.11.1" if number > minutes // 2 else "2026.10.4")
        jobs.backend.extend("", sample=Sample("host-7", minute, sample.encoded()))
        clock.advance(60)


def _minute(number: int, build: str) -> Measured:
    """Return a minute of a shop: busier and busier, with a bad quarter of an hour."""
    bad = 70 <= number < 85
    numbers = {}
    for place, (queue, job) in enumerate((("mail", "send_receipt"), ("cards", "pay_out"), ("photos", "resize"))):
        ended = 240 + number * 3 + (number * 37 + place * 11) % 60
        failed = ended // 4 if bad and queue == "cards" else ended // 100
        died = (80 <= number < 84 or 112 <= number < 118) and job == "pay_out"
        counters = {"jobs_succeeded": ended - failed, "jobs_failed": failed, "jobs_failed_permanently": int(died)}
        numbers[queue, job] = Numbers(counters, _took(90 if bad else 40, ended), _took(900 if bad else 120, ended))
    levels = {queue: QueueLevel(40 + (number * 13 + 900 * bad) % 700, (2 + 90 * bad) * 1000) for queue in _QUEUES}
    return Measured(builds=(build,), numbers=numbers, queues=levels, looked=True)


def _took(ms: int, count: int) -> Histogram:
    """Return runs of which most took so long, and some four times as long."""
    slow = count // 15
    places = [0] * BUCKETS
    places[ms.bit_length()] = count - slow
    places[(4 * ms).bit_length()] = slow
    return Histogram(ms * count, tuple(places))
