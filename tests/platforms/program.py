"""What a program does on any system: enqueue, run jobs in a worker on its own threads, look at them."""

import asyncio
import sys

from onward import Exponential, JobContext, Onward


def work_on(url):
    """Run jobs that fail once, async ones, and one that is drained, on one store."""
    jobs = Onward(url)

    @jobs.job(max_retries=2, retry=Exponential(base=0.01, max=0.01))
    def send(ctx: JobContext, user: int) -> str:
        if ctx.attempt == 1:
            raise ConnectionError("come back later")
        return f"sent to {user}"

    @jobs.job
    async def rest(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    with jobs.worker(queues=["default"]):
        handles = [send.enqueue(42), rest.enqueue(0.01)]
        assert [handle.result(timeout=60) for handle in handles] == ["sent to 42", 0.01]
    assert rest.enqueue(0).state() == "available"
    assert jobs.drain() == 1
    assert jobs.health()
    jobs.close()


def run_at_once():
    """Run a job inside its enqueue."""
    jobs = Onward("sync://")
    double = jobs.job(name="double")(_double)
    assert double.enqueue(21).result() == 42


def _double(number: int) -> int:
    return 2 * number


if __name__ == "__main__":
    for store in sys.argv[3:]:
        work_on(store)
    run_at_once()
    print(sys.platform)
