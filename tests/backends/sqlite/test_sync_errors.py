"""A sync that fails leaves the outcome unknown: it is never told as a success, and asking again tells the truth."""

import json

import pytest

from onward.backend import Settlement
from onward.backends.sqlite import SqliteBackend
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_session, an_envelope
from tests.broken_sync import AVAILABLE

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="the kernel can be told to fail a sync on Linux only")


@pytest.mark.promise("F54")
def test_an_enqueue_that_could_not_be_synced_is_not_called_a_success_and_can_be_repeated(file, run):
    output = run(
        """
        import json, sys
        from onward.backends.sqlite import SqliteBackend
        from onward.errors import BackendUnavailable
        from onward.testing.contract.builders import an_envelope
        from tests.broken_sync import break_syncs

        backend = SqliteBackend.open(sys.argv[1])
        backend.enqueue([an_envelope(id="before")])
        break_syncs()
        for job_id in ("during", "again"):
            try:
                print("stored", backend.enqueue([an_envelope(id=job_id)]))
            except BackendUnavailable as error:
                print("unknown" if "is unknown" in str(error) else error)
        """
    )
    assert output == "unknown\nunknown\n"

    healthy = SqliteBackend.open(file)
    for job_id in ("before", "during", "again"):
        healthy.enqueue([an_envelope(id=job_id)], retried=True)

    assert sorted(lease.envelope.id for lease in healthy.claim(a_claim(limit=9))) == ["again", "before", "during"]
    healthy.close()


@pytest.mark.promise("F54")
def test_a_settlement_that_could_not_be_synced_is_not_called_a_success_and_is_applied_once(file, run):
    held = run(
        """
        import json, sys
        from onward.backend import Settlement
        from onward.backends.sqlite import SqliteBackend
        from onward.errors import BackendUnavailable
        from onward.testing.contract.builders import a_claim, an_envelope
        from tests.broken_sync import break_syncs

        backend = SqliteBackend.open(sys.argv[1])
        backend.enqueue([an_envelope(id="job")])
        (lease,) = backend.claim(a_claim(owner="unlucky"))
        break_syncs()
        try:
            print("settled", backend.settle([Settlement.ack(lease)]))
        except BackendUnavailable:
            print(json.dumps([lease.envelope.id, lease.token, lease.owner]))
        """
    )
    job_id, _, owner = json.loads(held)

    healthy = SqliteBackend.open(file)
    leases = healthy.open_session(a_session("successor"), adopts=owner)
    answers = healthy.settle([Settlement.ack(lease) for lease in leases])

    assert all(answer.applied for answer in answers)
    stored = healthy.get(job_id)
    assert (stored.state, stored.attempts, stored.crashes) == (State.COMPLETED, 1, 0)
    healthy.close()
