"""An example shop.  Most of its jobs go well, some fail at first, one fails for good, one kills its process."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from onward import Exponential, JobContext, Onward

jobs = Onward()  # the command line says where


@jobs.job(queue="mail")
def send_receipt(order: int) -> str:
    time.sleep(0.02)
    return f"receipt {order} sent"


@jobs.job(queue="mail")
def remind(customer: str) -> str:
    return f"{customer} was reminded"


@jobs.job(queue="prices")
async def refresh_price(item: str) -> str:
    await asyncio.sleep(0.3)
    return f"the price of {item} is up to date"


@jobs.job(queue="prices")
async def follow_market() -> None:
    """Run until it is cancelled."""
    await asyncio.Event().wait()


@jobs.job(queue="cards", max_retries=5, retry=Exponential(base=0.2, max=1))
def charge_card(ctx: JobContext, order: int) -> str:
    """Charge a card; the bank fails at first for every third order."""
    time.sleep(0.05)
    if order % 3 == 0 and ctx.attempt <= 1 + order % 2:
        raise ConnectionError("the bank does not answer")
    return f"order {order} was paid at attempt {ctx.attempt}"


@jobs.job(queue="cards")  # no max_retries: one run
def refund(order: int) -> None:
    raise LookupError(f"order {order} was never paid")


@jobs.job(queue="stock")
def count_stock(ctx: JobContext, shelves: int) -> str:
    for shelf in range(shelves):
        ctx.progress(shelf / shelves, f"shelf {shelf + 1} of {shelves}")
        time.sleep(0.25)
    return f"{shelves} shelves counted"


@jobs.job(queue="stock", max_crashes=2)
def import_feed() -> None:
    """Kill the process, as a bug in a library written in C would."""
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)
