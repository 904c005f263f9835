"""Every act that there is reaches the audit trail of every store, with who did it and why."""

import pytest

from onward import Limit
from onward.contract.audit import ACTS
from tests.application.every_store import redis_server, store, url  # noqa: F401

ANN = {"by": "ann", "reason": "it is late"}


@pytest.fixture
def defined(jobs):
    @jobs.job(name="pay", limit=Limit(running=3))
    def pay() -> None: ...

    @jobs.job(name="fail")
    def fail(number: int) -> None:
        raise RuntimeError

    return pay, fail


def act_on_dead_jobs(jobs, fail):
    dead = [handle.id for handle in fail.enqueue_many([(number,) for number in range(9)])]
    jobs.drain()
    jobs.dead_letters.edit(dead[0], set={"number": 10}, **ANN)
    jobs.dead_letters.replay(dead[1:2], **ANN)
    jobs.dead_letters.purge(dead[2:3], **ANN)
    next(canary := jobs.dead_letters.canary("state:dead", **ANN))
    canary.close()
    for act in ("replay", "purge"):
        list(jobs.bulk(act, "state:dead", limit=2, **ANN))


def act_on_jobs(jobs, pay):
    late = pay.using(delay="1h", idempotency_key="order:42").enqueue()
    jobs.signal(late.id, "paid", **ANN)
    jobs.retry(late.id, **ANN)
    jobs.drain()
    jobs.forget("order:42", job=pay, **ANN)
    jobs.cancel(pay.using(delay="1h").enqueue().id, ANN["reason"], by="ann")
    for act in ("retry", "cancel"):
        pay.using(delay="1h").enqueue()
        list(jobs.bulk(act, "job:pay", **ANN))
    flow = jobs.chain(pay.call(), pay.call()).enqueue()
    flow.cancel(ANN["reason"], by="ann")
    flow.retry(**ANN)


def act_on_the_rest(jobs, pay):
    jobs.pause("mail", **ANN)
    jobs.resume("mail", **ANN)
    jobs.limits.set("pay", running=5, **ANN)
    jobs.limits.shut("pay", **ANN)
    jobs.limits.open("pay", **ANN)
    jobs.limits.clear("pay", **ANN)
    jobs.limits.set(queue="mail", running=5, **ANN)
    jobs.limits.forget(queue="mail", **ANN)
    schedules = jobs.schedules
    schedules.create("nightly", "0 3 * * *", pay.call(), **ANN)
    schedules.update("nightly", cron="0 4 * * *", **ANN)
    for act in (schedules.pause, schedules.resume, schedules.run_now, schedules.delete):
        act("nightly", **ANN)


@pytest.mark.promise("S136")
def test_every_act_there_is_leaves_who_and_why(jobs, defined):
    pay, fail = defined

    act_on_dead_jobs(jobs, fail)
    act_on_jobs(jobs, pay)
    act_on_the_rest(jobs, pay)

    entries = jobs.audit(limit=500)
    assert {each.act for each in entries} == set(ACTS)
    assert {each.who for each in entries} == {"ann"}
    assert [each.act for each in entries if not each.detail.endswith("it is late")] == []
    assert {each.detail for each in entries if each.act == "bulk"} == {
        f"{act} {words}; it is late"
        for act, words in [
            ("replay", "state:dead"),
            ("purge", "state:dead"),
            ("retry", "job:pay"),
            ("cancel", "job:pay"),
        ]
    }
