"""An attacker who can write to the store, and has no key, runs nothing: on every store, and nothing of theirs is lost.

All that is forged is stored through the backend, past everything that a client checks.  First it is run with verification
off, so that it is seen to be an attack; then a worker that requires signatures has to refuse it.
"""

import pytest

from onward.telemetry import JobCancelled, JobCompleted
from tests.security.signing import attacks
from tests.security.signing.attacks import ATTACKS, DAMAGE, QUEUE, RING, honest
from tests.security.signing.conftest import STORES
from tests.security.signing.shop import assert_refused_and_kept, open_shop

pytestmark = pytest.mark.usefixtures("quiet")

# Where a job takes longer not every bit is turned over: one of so many is, and never the same one of every byte.  MySQL and
# Beanstalkd see all of them together.  The other stores see each.
SHARES = {"mysql": (0, 2), "beanstalk": (1, 2), "companion": (0, 3), "servicebus": (0, 9)}
EVERY = (0, 1)


@pytest.fixture
def lax(url):
    """A worker with the keys, which does not look."""
    with open_shop(url, signing_keys=RING, signing="off") as shop:
        yield shop


@pytest.fixture
def strict(url):
    with open_shop(url, signing_keys=RING, signing="require") as shop:
        yield shop


def altered(store):
    """Every share of turned bits and truncations that this store sees."""
    offset, step = SHARES.get(store, EVERY)
    return [*attacks.bit_flips(offset, step), *attacks.truncations(step)]


@pytest.mark.promise("S36")
@pytest.mark.parametrize("store", ["memory"])
def test_a_turned_bit_may_well_run_without_a_check(lax, store):
    flips = list(attacks.bit_flips())
    lax.meets(flips)

    assert len(lax.ran) > 300  # nearly all those of key and signature, and some of the rest
    assert {n for _, n in lax.ran} > {1}  # among them some with other arguments than were signed


@pytest.mark.promise("S36", "CVE-2020-11981", "CVE-2020-11982")
def test_nothing_that_is_forged_runs_on_any_store(url, store, report):
    with open_shop(url, signing_keys=RING, signing="off") as lax:
        by_name = {name: attack() for name, attack in ATTACKS.items()}
        lax.meets(list(by_name.values()))

        # Without a check, every one of them runs.
        assert [name for name, each in by_name.items() if not isinstance(lax.ends[each.id], JobCompleted)] == []
        assert len(lax.ran) == len(ATTACKS)

    with open_shop(url, signing_keys=RING, signing="require") as strict:
        forged = [*attacks.many(ATTACKS, 6), *attacks.many(DAMAGE, 2)]
        strict.meets(forged)

        assert_refused_and_kept(strict, forged)
    report(f"signing: {len(forged):,} forged jobs on {store}: none ran")


@pytest.mark.promise("S36")
def test_no_single_bit_can_be_turned_over(strict, store, report):
    forged = altered(store)
    strict.meets(forged)

    assert_refused_and_kept(strict, forged)
    report(f"signing: {len(forged):,} turned bits and truncations on {store}: none ran")


def test_the_attacks_are_as_many_as_is_said():
    forged = 6 * len(ATTACKS) + 2 * len(DAMAGE)

    assert sum(forged + len(altered(store)) for store in STORES) >= 10_000


@pytest.mark.promise("S36")
def test_an_honest_job_among_them_runs(strict, store):
    jobs = [honest() for _ in range(20)]
    forged = attacks.many({"not signed": ATTACKS["not signed"]}, 20)
    strict.jobs.backend.enqueue(
        [each for pair in zip(jobs, forged, strict=True) for each in (pair[0], pair[1].envelope)]
    )
    with strict.jobs.worker(queues=[QUEUE]):
        strict.has_ended([*(job.id for job in jobs), *(each.id for each in forged)])

    assert strict.ran == [("send", 1)] * 20
    assert strict.jobs.metrics.count("jobs_rejected_signature") == 20


@pytest.mark.promise("S36")
def test_a_job_that_is_given_back_after_its_expiry_does_not_run(strict, store):
    """The column is the attacker's; the sealed expiry is not."""
    job = honest(expires_at=1)
    late = attacks.Forged(job.id, job.queue, job.data)
    strict.meets([late])

    assert strict.ran == []
    assert (type(strict.ends[job.id]), strict.ends[job.id].reason) == (JobCancelled, "expired")
