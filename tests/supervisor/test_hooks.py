"""Hooks around jobs that run in processes of their own."""

import pytest

HOOK = """
@jobs.around
def around(ctx):
    note("in", job=ctx.job, tenant=ctx.meta.get("tenant"))
    yield
    note("out", job=ctx.job)
    if ctx.meta.get("fails"):
        raise LookupError("the commit failed")
"""


@pytest.mark.promise("S51", "S52")
def test_hooks_are_entered_in_the_process_of_an_isolated_job_and_nowhere_else(shop, start):
    shop.add(HOOK)
    shop.jobs.stamp(lambda job: {"tenant": "acme"})
    fleet = start(shop)

    pids = [shop.alone.enqueue().result(20), shop.alone_async.enqueue().result(20)]
    (failed,) = shop.ended(shop.alone.using(meta={"fails": True}).enqueue())

    entered = shop.diary("in")
    assert {each["pid"] for each in entered} == set(pids) == set(fleet.solos())
    assert {each["tenant"] for each in entered} == {"acme"}
    assert len(entered) == len(shop.diary("out")) == 3
    assert (failed.errors[0].kind, failed.errors[0].message) == ("LookupError", "the commit failed")
    assert fleet.stop() == 0
