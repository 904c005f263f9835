"""Many processes on one file: nobody sees a lock error, nobody gets somebody else's job."""

import json
from collections import Counter

import pytest

PROCESSES, JOBS = 4, 150

_WORK = """
    import json, os, sys
    from onward.backend import Claim, Settlement, Session, Turn
    from onward.backends.sqlite import SqliteBackend
    from onward.testing.contract.builders import an_envelope

    jobs, owner = int(sys.argv[2]), str(os.getpid())
    backend = SqliteBackend.open(sys.argv[1])
    backend.open_session(Session(owner=owner))
    sys.stdin.readline()
    claimed, leases, enqueued = [], [], 0
    while True:
        if enqueued < jobs:
            backend.enqueue([an_envelope(id=f"{owner}-{enqueued}")])
            enqueued += 1
        result = backend.turn(
            Turn(owner=owner, settlements=[*map(Settlement.ack, leases)], claim=Claim(queues=("default",), limit=3))
        )
        assert all(answer.applied for answer in result.settled), result.settled
        leases = result.leases
        claimed += [(lease.envelope.id, lease.token) for lease in leases]
        if not leases and enqueued == jobs:
            break
    print(json.dumps(claimed))
"""


@pytest.mark.promise("F47", "F48")
def test_processes_that_write_at_once_share_the_jobs_without_an_error(start, open_backend, report):
    backend = open_backend(clock=None)
    workers = [start(_WORK, JOBS) for _ in range(PROCESSES)]
    for worker in workers:
        print("go", file=worker.stdin, flush=True)

    claimed = Counter()
    for worker in workers:
        output, _ = worker.communicate(timeout=100)
        assert worker.returncode == 0
        claimed.update((job_id, token) for job_id, token in json.loads(output))

    # Whoever found nothing may have gone before the others enqueued their last.
    rest = backend.counts()["available"]
    assert len(claimed) + rest == PROCESSES * JOBS
    assert set(claimed.values()) == {1}
    assert {token for _, token in claimed} == {1}
    report(f"claims on SQLite: {PROCESSES} processes, {len(claimed):,} jobs, none twice, no lock error")
