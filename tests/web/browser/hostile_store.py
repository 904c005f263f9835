"""A store in which every text that people or programs can choose tries to become markup, script or a mess."""

from datetime import timedelta

from onward import JobContext, NoDelay, Onward
from onward.backend import Claim, Session, Turn
from onward.contract.description import WorkerDescription

MARK = "HOSTILE"
TEXTS = (
    f"<img src=x onerror=alert('{MARK}')>",
    f"\"><script>alert('{MARK}')</script>",
    f"'-alert('{MARK}')-'",
    f"</pre></textarea></title><svg onload=alert('{MARK}')>",
    f"javascript:alert('{MARK}')",
    f"{{{{constructor.constructor('alert(1)')()}}}} ${{alert('{MARK}')}}",
    f"[{MARK}](javascript:alert(1)) `{MARK}` **{MARK}**",
    f"\u202e{MARK}\u202c \u200b\ufeff \x1b[2J {MARK}",
    f"data:text/html,<script>alert('{MARK}')</script>",
    f"{MARK}{'W' * 3_000}",
    "\n".join([MARK] + [""] * 200 + ["end"]),
    f"__proto__ {MARK}",
)
EVERYTHING = " ".join(TEXTS[:7])


def fill(url):
    """Fill a store with them; gives the ids of jobs, and of a flow."""
    jobs = Onward(url)

    @jobs.job(queue="mail")
    def returns(text: str) -> dict[str, str]:
        return {text: text}

    @jobs.job(queue="mail", max_retries=1, retry=NoDelay())
    def fails(text: str) -> None:
        raise type(f"Error_{MARK}", (Exception,), {})(text)

    @jobs.job(queue="later", max_retries=5)
    def reports(ctx: JobContext, text: str) -> None: ...

    jobs.schedule("@every 10m", name="hostile", args={"text": EVERYTHING})(reports)
    with jobs:
        made = [job.enqueue(text) for text in TEXTS for job in (returns, fails)]
        made.append(jobs.enqueue("unknown", {text: {"__proto__": text} for text in TEXTS}, queue="mail"))
        made.append(returns.using(meta={"trace": EVERYTHING}, unique_key=EVERYTHING[:200]).enqueue(EVERYTHING))
        jobs.drain("mail")
        cancelled = reports.using(delay="1h").enqueue(EVERYTHING)
        cancelled.cancel(EVERYTHING, by=f"<b onclick=alert(1)>{MARK}</b>")
        jobs.pause("later", by=f"<i>{MARK}</i>", reason=EVERYTHING)
        running = reports.enqueue(EVERYTHING)
        _work(jobs, running)
        flow = jobs.flow("hostile")
        first = flow.add(returns, EVERYTHING)
        flow.map(fails, [(text,) for text in TEXTS], after=first)
        return [*(each.id for each in made), cancelled.id, running.id], flow.enqueue().id


def _work(jobs, running):
    """Let a worker with hostile names take a job and tell of its progress."""
    description = WorkerDescription(queues=("later",), jobs=(EVERYTHING,), build=f"<u>{MARK}</u>", concurrency=3)
    session = Session(
        owner=f"<s>{MARK}</s>", host=TEXTS[0][:60], pid=1, version="<b>0</b>", description=description.encoded(),
        lease_for=timedelta(hours=1),
    )  # fmt: skip
    jobs.backend.open_session(session)
    jobs.resume("later")
    leases = jobs.backend.turn(Turn(owner=session.owner, claim=Claim(queues=("later",), limit=1))).leases
    jobs.pause("later", by=f"<i>{MARK}</i>", reason=EVERYTHING)
    assert [lease.envelope.id for lease in leases] == [running.id]
