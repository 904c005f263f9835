"""What a shop holds before it is damaged: for each table, as many rows as wanted, each with the name its key column has."""

import time
from datetime import timedelta

from onward.backend import Claim, LimitRow, Query, Sample, Session, Turn
from onward.backends.mysql.lanes import STRIPES, stripe_of
from onward.contract.samples import MINUTE
from onward.flow.lanes import lane_of
from onward.flow.limits import Bounds, Rate
from onward.flow.room import Scope
from onward.operate.series.measured import Measured
from onward.telemetry.numbers import Numbers

WIDE = Bounds(running=1_000, rate=Rate(tokens=1_000_000, period=86_400_000_000, burst=1_000_000))
MORE_JOBS = """
@jobs.job(max_retries=1, retry=Fixed(0.001))
def second_time_lucky(ctx: JobContext, n: int) -> None:
    if ctx.attempt == 1 or n % 2:  # half of them for good: their dead letters tell of both runs
        raise ValueError(f"not yet {n}")
"""

# Only for the tables of limits: brokers refuse the job.
PACED_JOB = """
@jobs.job(limit=Limit(rate="1000000/d", by="n"))
def paced(n: int) -> None:
    note("paced", n=n)
"""


def jobs(shop, count):
    """Waiting jobs."""
    return [handle.id for handle in shop.plain.enqueue_many([(n,) for n in range(count)])]


def finished(shop, count):
    """Jobs that have succeeded."""
    ids = jobs(shop, count)
    shop.jobs.drain()
    return ids


def attempts(shop, count):
    """Jobs that have failed once and are due again, when half of them fail for good."""
    handles = shop.second_time_lucky.using(queue="abandoned").enqueue_many([(n,) for n in range(count)])
    for _ in handles:
        shop.jobs.process_once("abandoned")
    return [handle.id for handle in handles]


def sessions(shop, count):
    """Sessions of dead workers, each with one job."""
    return _abandoned(shop, shop.plain, count, "left")


def _abandoned(shop, job, count, queue):
    owners = [f"{queue}-{n}" for n in range(count)]
    job.using(queue=queue).enqueue_many([(n,) for n in range(count)])
    for owner in owners:
        shop.jobs.backend.open_session(session_of(shop, owner))
        shop.jobs.backend.turn(Turn(owner=owner, claim=Claim(queues=(queue,), limit=1)))
    return owners


def queues(shop, count):
    """Paused queues, each with one job."""
    names = [f"paused-{n}" for n in range(count)]
    for n, name in enumerate(names):
        shop.plain.using(queue=name).enqueue(n)
        shop.jobs.pause(name)
    return names


def holds(shop, count):
    """Idempotency keys of jobs that have succeeded, and for each a second job with the same key."""
    ids = [shop.plain.using(idempotency_key=f"key-{n}").enqueue(n).id for n in range(count)]
    shop.jobs.drain()
    for n in range(count):
        shop.plain.using(idempotency_key=f"key-{n}").enqueue(n)
    return ids


def limits(shop, count):
    """Limits of jobs, declared and chosen, beside that of a queue: every walk reads them all."""
    names = [f"limited-{n}" for n in range(count)]
    declared = [LimitRow(kind="job", name=name, declared=WIDE, declared_at=1) for name in names]
    shop.jobs.backend.open_session(session_of(shop, "dead", declared))
    for name in names:
        shop.jobs.limits.set(name, running=1_000, rate="1000000/d")
    shop.jobs.limits.set(queue="default", running=1_000)
    return names


def gates(shop, count):
    """Buckets of keys, each with a job that waits for it."""
    shop.paced.enqueue_many([(n,) for n in range(count)])
    lanes = [lane_of("paced", str(n)) for n in range(count)]
    for lane in lanes:
        shop.jobs.backend.shut(lane, opened=True)
    return lanes


def audit(shop, count):
    """Entries of the audit trail, each about a queue of its own."""
    names = [f"audited-{n}" for n in range(count)]
    for name in names:
        shop.jobs.pause(name, by="ann@host", reason="damaged")
    return names


def lanes(shop, count):
    """Jobs that wait in lanes."""
    return [handle.id for handle in shop.paced.enqueue_many([(n,) for n in range(count)])]


def running(shop, count):
    """Sessions of dead workers, each with one job of a lane."""
    return _abandoned(shop, shop.paced, count, "left-in-lanes")


def members(shop, count):
    """Members of a flow that are due, with one that waits for them."""
    return _mapped(shop, count, after=None)


def waiting(shop, count):
    """Members of a flow that wait for the one before them."""
    flow = shop.jobs.flow("damaged")
    return _mapped(shop, count, after=flow.add(shop.plain, 0, node="before"), flow=flow)


def _mapped(shop, count, *, after, flow=None):
    flow = flow or shop.jobs.flow("damaged")
    many = flow.map(shop.plain, [(n,) for n in range(count)], node="many", after=after)
    flow.add(shop.plain, 0, node="behind", after=many, when="finished")
    handle = flow.enqueue()
    found = shop.jobs.backend.list(Query(flow=handle.id, node="many", limit=count))
    return [job.id for job in found]


def stripes(shop, count):
    """Rows that claims of limits lock, of which the limited queue has the first."""
    shop.jobs.limits.set(queue="default", running=1_000)
    first = stripe_of(Scope.of_queue("default"))
    return [(first + n) % STRIPES for n in range(count)]


def series(shop, count):
    """Samples of this minute, each of a process of its own."""
    names = [f"reporter-{n}" for n in range(count)]
    minute = time.time_ns() // 1000 // MINUTE * MINUTE
    data = Measured(builds=("1",), numbers={("default", "plain"): Numbers({"jobs_succeeded": 1})}).encoded()
    for name in names:
        assert shop.jobs.backend.extend("", sample=Sample(name, minute, data)).refused is None
    return names


def session_of(shop, owner, limits=()):
    length = timedelta(seconds=shop.jobs.settings.lease_for)
    return Session(owner=owner, lease_for=length, host="nowhere", pid=1, version="0", limits=tuple(limits))


# Those whose jobs are run come first: those of the others wait.
SCENES = {scene.__name__: scene for scene in (finished, holds, attempts, jobs, sessions, queues)}
LIMIT_SCENES = {scene.__name__: scene for scene in (limits, gates)}
AUDIT_SCENES = {audit.__name__: audit}
SERIES_SCENES = {series.__name__: series}
QUEUES = "default,abandoned,left,left-in-lanes"  # in which they have jobs
OF_LIMITS = {*LIMIT_SCENES, "lanes", "running", "stripes"}
