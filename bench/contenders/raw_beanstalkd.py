"""The engine by hand: greenstalk, a put for every job, and a loop that reserves and deletes one after the other.

There are no threads, no envelopes opened, no counters, no fences.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from bench.body import noop, payload
from bench.contenders import on_beanstalkd
from onward.backends.beanstalk.body import BodyHeader, encode
from onward.job.envelope import Letter, seal

CONFIGS = {"1 process": 1, "2 processes": 2}
TUBE = "raw"

# As long as what Onward stores.
_NOW = 1_763_200_000_000_000
_TTR = 120
_ENVELOPE = seal(
    Letter(
        id="0" * 32,
        namespace="default",
        queue="default",
        job="work",
        max_retries=0,
        max_crashes=3,
        enqueued_at=_NOW,
        payload=msgspec.Raw(msgspec.json.encode(payload(1))),
    )
)
_BODY = encode(BodyHeader.of(_ENVELOPE, priority=_ENVELOPE.priority, ttr=_TTR), _ENVELOPE.data, 1 << 16)


def reset() -> None:
    on_beanstalkd.fresh()


@contextmanager
def opened() -> Iterator[Any]:
    with on_beanstalkd.connect(TUBE) as client:
        yield client


def enqueue(client: Any, n: int) -> None:
    for _ in range(n):
        client.put(_BODY, ttr=_TTR)


bulk = enqueue


def processes(config: str) -> int:
    return CONFIGS[config]


def serve(config: str) -> None:
    job = payload(1)
    with on_beanstalkd.connect(TUBE) as client:
        while True:
            taken = client.reserve()
            noop(job)
            client.delete(taken)
