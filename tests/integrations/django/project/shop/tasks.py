"""The tasks of the shop."""

import os
from pathlib import Path

from django import VERSION
from django.conf import settings
from django.db import transaction

from onward import Fixed
from onward.integrations.django import options, task
from shop.models import Order


@task
def add(a, b=0):
    return a + b


@task
async def aadd(a, b=0):
    return a + b


@task
def write(label):
    return Order.objects.create(label=label).label


@task
async def awrite(label):
    return (await Order.objects.acreate(label=label)).label


@task
def patient():
    raise KeyError("try again")


if VERSION[:2] != (6, 0):  # the one whose @task takes no further words

    @task(max_attempts=3, backoff=Fixed(0), timeout="30s")
    def stubborn():
        raise ConnectionError


@task
def exits():
    raise SystemExit(3)


@task
def returns_an_object():
    return object()


@task(takes_context=True)
def report(context, fraction):
    context.onward.progress(fraction)
    return [context.attempt, context.task_result.id]


@task
@options(unique_key="order:{number}")
def pack(number, gift=False):
    return number


@task
def session(user):
    return {"user": user, "token": "hunter2"}


@task
def login(user, password):
    raise ValueError(f"{user} may not come in with {password}")


@task(takes_context=True)
def in_one_commit(context, label):
    with transaction.atomic():
        Order.objects.create(label=label)
        with context.onward.transaction(transaction.get_connection()) as tx:
            tx.complete(label)


@task
@options(max_crashes=3)
def crash_once(label):
    """Tell who runs, and wait to be killed, the first time."""
    mark = Path(settings.FOLDER, f"{label}.pid")
    if not mark.exists():
        mark.with_suffix(".new").write_text(str(os.getpid()))
        mark.with_suffix(".new").rename(mark)
        while True:
            pass
    return Order.objects.create(label=label).label
