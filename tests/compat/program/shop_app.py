"""A program for Celery.  The tests run it as it is, and with `celery` replaced by `onward.compat.celery`."""

import os

from celery import Celery

app = Celery("shop", broker=os.environ["SHOP_BROKER"], backend=os.environ["SHOP_BACKEND"], include=["shop_tasks"])
app.conf.update(
    task_serializer="json",
    accept_content=["json"],
    task_routes={"shop_tasks.routed": {"queue": "shop"}},
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)
