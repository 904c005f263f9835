"""Tasks for Celery, in the ways in which people write them."""

import os
import time

from celery import shared_task
from celery.exceptions import SoftTimeLimitExceeded
from celery.utils.log import get_task_logger

logger = get_task_logger(__name__)


class Unavailable(Exception):
    pass


def ran(name):
    """Note that a task ran: each run is a line."""
    logger.info("%s runs", name)
    with open(os.environ["SHOP_RUNS"], "a") as runs:  # noqa: PTH123
        runs.write(f"{name}\n")


@shared_task
def add(x, y=1):
    ran("add")
    return x + y


@shared_task(ignore_result=True)
def total(numbers):
    ran("total")
    return sum(numbers)


@shared_task(bind=True, default_retry_delay=0)
def flaky(self, failures):
    """Come back by hand, until it succeeds or has been retried three times."""
    ran("flaky")
    if self.request.retries < failures:
        raise self.retry(exc=Unavailable(f"attempt {self.request.retries}"))
    return self.request.retries


@shared_task(bind=True, max_retries=1)
def tireless(self):
    """Ask for more retries than there are, without an exception."""
    ran("tireless")
    self.retry(countdown=0)


@shared_task(autoretry_for=(Unavailable,), retry_kwargs={"max_retries": 2, "countdown": 0})
def automatic():
    ran("automatic")
    raise Unavailable("still")


@shared_task(autoretry_for=(Exception,), dont_autoretry_for=(ValueError,), retry_backoff=True)
def refusing():
    ran("refusing")
    raise ValueError("never again")


@shared_task(autoretry_for=(Unavailable,), max_retries=1, retry_backoff=1, retry_jitter=False)
def backing_off():
    ran("backing_off")
    raise Unavailable("slowly")


@shared_task
def broken():
    """Die at once: an exception is final unless it is listed."""
    ran("broken")
    raise Unavailable("out of order")


@shared_task(time_limit=60)
def confined(table):
    """Run in a process that is killed at its limit."""
    ran("confined")
    return table["missing"]


@shared_task(bind=True)
def routed(self):
    return self.request.delivery_info["routing_key"]


@shared_task(soft_time_limit=1, acks_late=True)
def slow():
    ran("slow")
    try:
        while True:
            time.sleep(0.02)
    except SoftTimeLimitExceeded:
        return "cleaned up"


@shared_task(rate_limit="1000/s")
def unpacked(pair, *rest, **named):
    return [pair, list(rest), named]
