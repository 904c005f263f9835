"""The example shop with more to look at: schedules, a workflow, limits, secrets, jobs that die in groups.

``onward demo --web`` runs it, so that every page of the dashboard has something to show.
"""

from __future__ import annotations

import time

from onward import Exponential, JobContext, Limit, Secret
from onward.demo.shop import jobs

__all__ = ["jobs"]


@jobs.schedule("@every 5s", name="follow-orders")
@jobs.job(queue="reports")
def follow_orders(ctx: JobContext) -> str:
    return f"orders until {ctx.scheduled_for} followed"


@jobs.schedule("30 2 * * *", name="nightly-stock", tz="Europe/Berlin", args={"region": "north"})
@jobs.job(queue="reports")
def nightly_stock(region: str) -> str:
    return f"the stock of {region} is counted"


@jobs.job(queue="carriers", limit=Limit(running=1, by="carrier"))
def book_parcel(ctx: JobContext, carrier: str, parcel: int) -> str:
    ctx.progress(0.5, "waiting for the label")
    time.sleep(0.4)
    return f"{carrier} takes parcel {parcel}"


@jobs.job(queue="carriers", limit=Limit(rate="30/min"))
def ask_for_quote(carrier: str, kilos: float) -> dict[str, float]:
    return {carrier: round(4.9 + kilos * 0.7, 2)}


@jobs.job(queue="cards", max_retries=1, retry=Exponential(base=0.1, max=0.2))
def pay_out(seller: int, iban: Secret[str]) -> None:
    """Fail: the bank has changed its interface.  A group of dead letters with one cause."""
    raise TimeoutError(f"the bank did not confirm {iban.reveal()} of seller {seller}")


@jobs.job(queue="mail")
def import_address(row: dict[str, str]) -> str:
    return row["street"]  # rows of one partner lack it


@jobs.job(queue="photos", max_retries=20, retry=Exponential(base=5, max=600))
def fetch_photo(item: str) -> None:
    raise ConnectionError(f"the photographer's server has no {item} yet")


@jobs.job(queue="photos")
def resize(photo: str, width: int) -> str:
    time.sleep(0.3)
    return f"{photo}-{width}.webp"


@jobs.job(queue="photos")
def unpack(ctx: JobContext, archive: str) -> int:
    for part in range(10):
        ctx.progress(part / 10, f"{archive}: part {part + 1} of 10")
        time.sleep(0.1)
    return 10


@jobs.job(queue="photos")
def publish(ctx: JobContext, catalogue: str) -> str:
    return f"{catalogue} with {len(list(ctx.results_of(resize)))} photos"


@jobs.job(queue="mail")
def tell_editors(catalogue: str) -> str:
    return f"{catalogue} is out"
