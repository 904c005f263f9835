"""A small shop on one SQLite file, in one process: what jobs do, and what becomes of them.

    python examples/first.py

The clock is a fake one, so no test waits for a delay.  Everything that is printed is also asserted.
"""

import logging
import sys
import tempfile
from pathlib import Path

from onward import Exponential, JobContext, Onward
from onward.testing import FakeClock

# Of the log, only critical lines: a job was given up.
logging.basicConfig(format="    log: %(levelname)s %(message)s", level=logging.CRITICAL, stream=sys.stdout)

folder = tempfile.TemporaryDirectory()
clock = FakeClock()
jobs = Onward(f"sqlite:///{Path(folder.name) / 'shop.db'}", clock=clock)

stock = {"teapot": 3}
sent = []


@jobs.job
def send_receipt(order: int, lang: str = "en") -> str:
    sent.append(order)
    return f"receipt {order} sent in {lang}"


@jobs.job(queue="cards", max_retries=3, retry=Exponential(base=5, max=300, jitter=None))
def charge(ctx: JobContext, order: int, cents: int) -> str:
    if ctx.attempt < 3:
        raise ConnectionError("the bank does not answer")
    return f"{cents / 100:.2f} paid for order {order} at attempt {ctx.attempt}"


@jobs.job(queue="stock")  # no max_retries: one run
def reserve(item: str) -> str:
    stock[item] -= 1
    return f"{stock[item]} left of {item}"


@jobs.job
async def remind(customer: str) -> str:
    return f"reminded {customer}"


def main() -> None:
    with folder, jobs:
        receipts()
        payment()
        dead_letter()
        unique()
        later()
        table()


def receipts() -> None:
    say("Three receipts are enqueued. When the call returns, they are on the disk.")
    send_receipt.enqueue_many([(1,), (2,)])
    urgent = send_receipt.using(priority=10).enqueue(3, lang="de")
    assert jobs.counts()["available"] == 3

    ran = jobs.drain()
    tell(f"drain() ran {ran} jobs, the urgent one first: {urgent.result()}")
    assert sent == [3, 1, 2]
    assert urgent.record().attempts == 1


def payment() -> None:
    say("A payment fails twice. Each time it goes back to the store with a delay; no thread sleeps.")
    handle = charge.enqueue(1, cents=1999)
    for delay in (5, 10):
        result = jobs.process_once("cards")
        tell(f"attempt {result.attempts}: {result.status}, {result.error.message}; again in {delay} s")
        assert result.status == "requeued"
        assert jobs.process_once("cards").status == "empty"  # not before its time
        clock.advance(delay)

    assert jobs.process_once("cards").status == "acked"
    tell(f"attempt 3: {handle.result()}")
    assert [error.attempt for error in handle.record().errors] == [1, 2]


def dead_letter() -> None:
    say("An order for something the shop has never heard of. One run is all it gets.")
    handle = reserve.enqueue("samovar")
    assert jobs.process_once("stock").status == "dead-lettered"
    (dead,) = jobs.dead_letters.list()
    tell(f"kept as a dead letter: {dead.payload}, {dead.errors[-1].kind}")
    assert dead.id == handle.id
    assert dead.reason == "gave up after 1 attempt: max_retries is 0"

    say("A person puts samovars on the shelf and replays it.")
    stock["samovar"] = 5
    assert jobs.dead_letters.replay(queue="stock") == 1
    jobs.drain("stock")
    tell(f"{handle.result()}; its first failure is still on record")
    assert handle.state() == "completed"
    assert len(handle.record().errors) == 1


def unique() -> None:
    say("An impatient customer clicks five times. The key lets one job live.")
    clicks = [send_receipt.using(unique_key="receipt:4").enqueue(4) for _ in range(5)]
    tell(f"{len(clicks)} clicks, {sum(click.created for click in clicks)} job")
    assert len({click.id for click in clicks}) == 1
    assert jobs.drain() == 1


def later() -> None:
    say("A reminder for tomorrow, and one that is called off.")
    tomorrow = remind.using(delay="1d").enqueue("ada")
    called_off = remind.using(delay="1d").enqueue("bob")
    assert called_off.cancel("bob has paid") == "cancelled"
    assert jobs.drain() == 0
    tell(f"today: {tomorrow.state()} and {called_off.state()}")

    clock.advance(86_400)
    assert jobs.drain() == 1
    tell(f"tomorrow: {tomorrow.result()}")


def table() -> None:
    say("Everything, in the order it was enqueued:")
    records = jobs.list()
    print(f"    {'job':<13}{'queue':<9}{'state':<11}{'attempts':>8}   what came of it")
    for record in records:
        outcome = record.result or record.reason
        print(f"    {record.job:<13}{record.queue:<9}{record.state:<11}{record.attempts:>8}   {outcome}")

    counts, count = jobs.counts(), jobs.metrics.count
    say(f"{len(records)} jobs: {counts['completed']} completed, {counts['cancelled']} cancelled, none lost.")
    assert (len(records), counts["completed"], counts["cancelled"]) == (8, 7, 1)
    assert count("jobs_failed") == count("jobs_requeued") + count("jobs_failed_permanently") == 3


def say(text: str) -> None:
    print(f"\n{text}")


def tell(text: str) -> None:
    print(f"    {text}")


if __name__ == "__main__":
    main()
