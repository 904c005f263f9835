"""A program whose handlers complete their jobs in transactions of their own connections, and which is killed in one of them.

    python -m tests.transactions.completing_program <driver> <url of the jobs> <address of the database, as JSON> <when>

The first handler commits, the second rolls back.  The third says so and waits: ``before`` its commit, or ``after`` it.
"""

import asyncio
import json
import sys

from onward import JobContext, Onward
from tests.transactions.program import DRIVERS, Third


class Handler(Third):
    """What the drivers of `tests.transactions.program` do, in the transaction of a job."""

    def __init__(self, jobs, address):
        super().__init__(jobs, address)
        self.when = ""

    def begin(self, ctx, label):
        self.jobs, self.label = ctx, label
        return self

    def end(self):
        if self.label != "killed" or self.when == "before":
            super().end()

    def committed(self):
        if self.label == "killed":
            super().end()


def main(driver, url, address, when):
    act = DRIVERS[driver]
    with Onward(url).connect() as jobs:
        it = Handler(jobs, json.loads(address))
        it.when = when

        if asyncio.iscoroutinefunction(act):

            @jobs.job
            async def work(ctx: JobContext, label: str) -> None:
                await act(it.begin(ctx, label))
                it.committed()

        else:

            @jobs.job
            def work(ctx: JobContext, label: str) -> None:
                act(it.begin(ctx, label))
                it.committed()

        for label in ("commit", "rollback", "killed"):
            work.enqueue(label)
            jobs.drain()


if __name__ == "__main__":
    main(*sys.argv[1:])
