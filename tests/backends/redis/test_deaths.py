"""What a look at the dead jobs of a server costs, and how their index is repaired."""

import pytest

from onward.backend import Look, Query, Settlement
from onward.testing.contract.builders import a_claim, a_failure, some_envelopes

P = "{onward}:"


def died(backend, count=3, **options):
    backend.enqueue(some_envelopes(count, **options))
    leases = backend.claim(a_claim(limit=count))
    backend.settle([Settlement.abandon(lease, "gave up", failure=a_failure()) for lease in leases])
    return [lease.envelope.id for lease in leases]


def groups(backend):
    return [(group.job, group.fingerprint, group.count) for group in backend.look(Look(deaths=True)).deaths]


def calls_of(raw, act):
    """Count the commands that the scripts give meanwhile."""
    raw.config_resetstat()
    act()
    return sum(each["calls"] for each in raw.info("commandstats").values())


@pytest.mark.promise("S125")
def test_groups_cost_the_same_however_many_jobs_have_died(backend, raw):
    died(backend, 10)
    backend.look(Look(deaths=True))  # the server knows the script now
    few = calls_of(raw, lambda: backend.look(Look(deaths=True)))
    for _ in range(4):
        died(backend, 500)

    assert calls_of(raw, lambda: backend.look(Look(deaths=True))) == few
    assert groups(backend) == [("work", "unexplained", 2_010)]


def test_a_success_writes_nothing_about_deaths(backend, raw):
    backend.enqueue(some_envelopes(2))
    backend.settle([Settlement.ack(lease) for lease in backend.claim(a_claim(limit=2))])

    assert raw.exists(f"{P}deaths") == 0


def test_an_entry_that_is_lost_is_found_again(backend, raw):
    died(backend)
    raw.delete(f"{P}deaths")
    assert groups(backend) == []

    backend.set_aside()

    assert groups(backend) == [("work", "unexplained", 3)]


@pytest.mark.parametrize("member", [b"work\0elsewhere\0", b"", b"\xff\xfe\0\0"])
def test_an_entry_of_another_group_is_taken_out(backend, raw, member):
    ids = died(backend)
    raw.zadd(f"{P}deaths", {member + ids[0].encode() if member else b"no entry": 0})

    backend.set_aside()

    assert ("work", "unexplained", 3) in groups(backend)
    assert len(backend.list(Query(job="work", fingerprint="unexplained"))) == 3
    assert not [each for each in groups(backend) if each[1] == "elsewhere"]


def test_a_key_of_another_type_is_put_aside(backend, raw):
    died(backend)
    raw.delete(f"{P}deaths")
    raw.set(f"{P}deaths", "text")

    assert groups(backend) == [("work", "unexplained", 3)]


def test_a_record_that_cannot_be_read_leaves_its_group(backend, raw):
    ids = died(backend)
    raw.hset(f"{P}jobs", ids[0], b"\0\0\0\x01damaged")

    found = {job: count for job, _, count in groups(backend)}

    assert found["work"] == 2
