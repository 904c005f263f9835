"""What contenders on beanstalkd share: the server that the bench started, which everybody finds empty."""

from __future__ import annotations

import os
from contextlib import suppress
from urllib.parse import urlsplit

import greenstalk

TUBES = ("onward.default.default", "raw")


def url() -> str:
    return os.environ["BENCH_BEANSTALKD"]


def connect(tube: str = "default") -> greenstalk.Client[bytes]:
    place = urlsplit(url())
    return greenstalk.Client((place.hostname or "", place.port or 0), encoding=None, use=tube, watch=tube)


def fresh() -> None:
    for tube in TUBES:
        with connect(tube) as client, suppress(greenstalk.TimedOutError):
            while True:
                client.delete(client.reserve(timeout=0))
