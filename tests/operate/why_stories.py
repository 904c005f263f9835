"""One job for every reason that `why` can give, in one SQLite store whose clock stands still afterwards.

Each has a queue of its own, named like the code, so that no story changes another.  Whoever asks by the same instant is told
the same, to the last digit: `Application` is what the command line and a dashboard are asked through.
"""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

from onward import JobContext, Limit, Onward
from onward.backend import Claim, Session, Settlement, Turn
from onward.contract.description import WorkerDescription
from onward.testing import FakeClock

__all__ = ["Application", "tell"]

BEGINS = datetime(2026, 3, 1, 9, tzinfo=UTC)
_KNOWN = ("work", "alone", "capped", "paced", "closed")  # by workers


class Application:
    """The application of the stories, at an instant at which its clock stands."""

    def __init__(self, path, instant=BEGINS):
        self.clock = FakeClock(instant)
        self.jobs = jobs = Onward(f"sqlite:///{path}?durability=relaxed", clock=self.clock)

        def work() -> None: ...

        def fail() -> None:
            raise ValueError("no address")

        def nap(ctx: JobContext) -> None:
            ctx.sleep("nap", "1h")

        def wait(ctx: JobContext) -> None:
            ctx.wait_for("paid", timeout="1h")

        self.defined = {
            "work": jobs.job(work),
            "fail": jobs.job(max_retries=0)(fail),
            "nap": jobs.job(nap),
            "wait": jobs.job(wait),
            "alone": jobs.job(name="alone", single_instance=True)(work),
            "capped": jobs.job(name="capped", limit=Limit(running=1))(work),
            "paced": jobs.job(name="paced", limit=Limit(rate="1/h"))(work),
            "closed": jobs.job(name="closed", limit=Limit(running=5))(work),
        }


def tell(path):
    """Let every story happen; gives the id of each job by its code, and the instant at which they are true."""
    application = Application(path)
    with application.jobs:
        stories = _Stories(application, path)
        for code in _BEFORE:
            getattr(stories, code)()
        application.clock.advance(timedelta(minutes=10))
        for code in _AFTER:
            getattr(stories, code)()
    return stories.told, application.clock.now()


class _Stories:
    """Each method makes one job to which the code of this name applies."""

    def __init__(self, application, path):
        self.jobs = application.jobs
        self.clock = application.clock
        self.defined = application.defined
        self.path = path
        self.told = {}

    def gone(self):
        self.told["gone"] = f"{self.clock.micros() // 1000 - 5_000:012x}" + "7" * 20

    def completed(self):
        self.enqueue("completed")
        self.jobs.drain("completed")

    def discarded(self):
        self.enqueue("discarded", job="fail")
        self.jobs.drain("discarded")

    def cancelled(self):
        self.enqueue("cancelled").cancel("the order was called off", by="ada")

    def worker_gone(self):
        self.enqueue("worker_gone")
        self.claim("worker_gone")
        with closing(sqlite3.connect(self.path)) as file, file:  # no worker does that: a person has, or a restored copy
            file.execute("DELETE FROM onward_sessions WHERE owner = 'of worker_gone'")

    def worker_silent(self):
        self.enqueue("worker_silent")
        self.claim("worker_silent", lease_for=timedelta(seconds=10))

    def cancelling(self):
        handle = self.enqueue("cancelling")
        self.claim("cancelling")
        handle.cancel("no longer needed", by="ada")

    def running(self):
        self.enqueue("running")
        self.claim("running")

    def expired(self):
        self.enqueue("expired", expires="1m")
        self.serve("expired")

    def spent(self):
        self.enqueue("spent")
        (lease,) = self.claim("spent")
        self.jobs.backend.settle([Settlement.nack(lease, 60, spent="it has failed for good")])

    def unknown_job(self):
        self.told["unknown_job"] = self.jobs.enqueue("wrok", queue="unknown_job").id
        self.park("unknown_job")

    def wrong_version(self):
        self.enqueue("wrong_version")
        self.park("wrong_version")

    def held(self):
        self.enqueue("held", job="alone")
        self.claim("held")
        self.enqueue("held", job="alone")
        self.jobs.drain("held")

    def awaits_flow(self):
        flow = self.jobs.flow("publish")
        first = flow.add(self.defined["work"].call(), node="render")
        flow.add(self.defined["work"].call(), node="send", after=first)
        flow.enqueue()
        (self.told["awaits_flow"],) = [job.id for job in self.jobs.list() if job.node == "send"]

    def awaits_signal(self):
        self.enqueue("awaits_signal", job="wait")
        self.jobs.drain("awaits_signal")

    def sleeping(self):
        self.enqueue("sleeping", job="nap")
        self.jobs.drain("sleeping")

    def not_due(self):
        self.enqueue("not_due", delay="3h")

    def paused(self):
        self.enqueue("paused")
        self.jobs.pause("paused", by="ada", reason="the printer is out of paper")

    def unserved(self):
        self.enqueue("unserved")

    def not_allowed(self):
        self.enqueue("not_allowed")
        self.serve("not_allowed", allowed={"not_allowed": ("other",)})

    def shut(self):
        self.enqueue("shut", job="closed")
        self.serve("shut")
        self.jobs.limits.shut("closed", by="ada")

    def limited(self):
        self.enqueue("limited", job="capped")
        self.claim("limited")
        self.enqueue("limited", job="capped")

    def throttled(self):
        self.enqueue("throttled", job="paced")
        self.claim("throttled")
        self.enqueue("throttled", job="paced")

    def suspect(self):
        """Let its worker vanish; when it is due again, others have come that are more urgent."""
        self.enqueue("suspect")
        self.claim("suspect", lease_for=timedelta(seconds=1))
        self.clock.advance(2)
        self.jobs.reap()
        self.defined["work"].using(queue="suspect", priority=100).enqueue()
        self.serve("suspect", owner="another")

    def busy(self):
        self.enqueue("busy")
        self.claim("busy", concurrency=1)
        self.enqueue("busy")

    def starved(self):
        self.enqueue("starved")
        self.defined["work"].using(queue="before_it").enqueue()
        self.serve("starved", queues=("before_it", "starved"))

    def behind(self):
        self.defined["work"].using(queue="behind").enqueue()
        self.enqueue("behind")
        self.serve("behind")

    def first_in_line(self):
        self.enqueue("first_in_line")
        self.serve("first_in_line")

    def enqueue(self, code, job="work", **options):
        handle = self.defined[job].using(queue=code, **options).enqueue()
        self.told[code] = handle.id
        return handle

    def serve(self, queue, *, owner="of", lease_for=timedelta(hours=1), **said):
        """Open the session of a worker that serves a queue, and claims nothing."""
        described = {"queues": (queue,), "concurrency": 10, "jobs": _KNOWN, "started": self.clock.micros()} | said
        session = Session(
            owner=f"{owner} {queue}",
            lease_for=lease_for,
            host="web-1",
            pid=4242,
            limits=self.jobs.parts().limits(),
            description=WorkerDescription(**described).encoded(),
        )
        self.jobs.backend.open_session(session)
        return session.owner

    def claim(self, queue, **said):
        owner = self.serve(queue, **said)
        leases = self.jobs.backend.turn(Turn(owner=owner, claim=Claim(queues=(queue,), limit=1))).leases
        assert [lease.envelope.id for lease in leases] == [self.told[queue]]
        return leases

    def park(self, queue):
        (lease,) = self.claim(queue)
        self.jobs.backend.settle([Settlement.park(lease, 60, "it is not known here")])


# Ten minutes pass between these and the others.
_BEFORE = ("suspect", "worker_silent", "expired")
_AFTER = (
    "gone", "completed", "discarded", "cancelled", "worker_gone", "cancelling", "running", "spent", "unknown_job",
    "wrong_version", "held", "awaits_flow", "awaits_signal", "sleeping", "not_due", "paused", "unserved", "not_allowed",
    "shut", "limited", "throttled", "busy", "starved", "behind", "first_in_line",
)  # fmt: skip
