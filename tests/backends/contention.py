"""Many processes and threads on one store, asked of each: no claim waits, and no job is given to two of them."""

import json
from collections import Counter

import pytest

from onward.backend import Claim, Hold, Query, Session, Settlement, Turn
from onward.job.states import LIVE
from onward.testing.contract.builders import a_claim, a_session, an_envelope, at_once, some_envelopes
from tests.proof import keyed

PROCESSES, JOBS = 4, 150
KEYED_JOBS = 1_000
_LIVE = Query(states=LIVE, limit=1_000)

_WORK = """
    import json, os, sys
    from onward.backend import Claim, Settlement, Session, Turn
    from onward.backends.opening import open_store
    from onward.config import Settings
    from onward.testing.contract.builders import an_envelope

    url, jobs, owner = sys.argv[2], int(sys.argv[3]), str(os.getpid())
    backend = open_store(Settings(url=url))
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


class Processes:
    """Asked of every store that processes share."""

    @pytest.mark.promise("F34", "F45", "F47", "F48")
    def test_processes_that_write_at_once_share_the_jobs_without_an_error(
        self, start, open_backend, url, report, store_name
    ):
        backend = open_backend(clock=None)
        workers = [start(_WORK, url, JOBS) for _ in range(PROCESSES)]
        for worker in workers:
            print("go", file=worker.stdin, flush=True)

        claimed = Counter()
        for worker in workers:
            output, _ = worker.communicate(timeout=100)
            assert worker.returncode == 0
            claimed.update((job_id, token) for job_id, token in json.loads(output))

        # A process that found nothing may have ended before the others enqueued their last.
        rest = backend.counts()["available"]
        assert len(claimed) + rest == PROCESSES * JOBS
        assert set(claimed.values()) == {1}
        assert {token for _, token in claimed} == {1}
        report(f"claims on {store_name}: {PROCESSES} processes, {len(claimed):,} jobs, none twice")


@pytest.mark.usefixtures("no_deadlock")
class ClientsOfAServer(Processes):
    """Asked of databases: no transaction of many at once is undone because two wait for each other."""

    unique_keys = True  # whether jobs with unique keys are among those that processes fight for

    @pytest.mark.slow
    @pytest.mark.promise("S33", "S35", "F34", "F45")
    def test_processes_that_fight_for_few_keys_end_every_job(self, url, open_backend, tmp_path, report, store_name):
        open_backend()
        ledger = keyed.of_processes(
            url, tmp_path, name=store_name, jobs=KEYED_JOBS, unique=self.unique_keys, tell=lambda _: None
        )

        report(str(ledger))
        assert ledger.flawless, ledger

    def test_claims_at_once_are_disjoint_and_leave_nothing(self, backend, open_backend):
        clients = [backend, open_backend(), open_backend(), open_backend()]
        backend.enqueue(some_envelopes(400))

        claimed = at_once(
            4,
            lambda number: [each.envelope.id for each in clients[number].claim(a_claim(owner=f"{number}", limit=100))],
        )

        assert len({job_id for ids in claimed for job_id in ids}) == sum(map(len, claimed))
        rest = backend.claim(a_claim(owner="last", limit=400))
        assert sum(map(len, claimed)) + len(rest) == 400

    @pytest.mark.parametrize("key", [{"idempotency_key": "k"}, {"single_instance": True}], ids=["once", "single"])
    def test_a_key_that_many_ask_for_at_once_is_held_by_one(self, backend, open_backend, key):
        clients = [backend, open_backend(), open_backend(), open_backend()]
        for owner in range(4):
            backend.open_session(a_session(f"{owner}"))
        for _ in range(10):
            backend.enqueue([an_envelope(**key) for _ in range(8)])

            def claim(number):
                turn = Turn(owner=f"{number}", claim=Claim(queues=("default",), limit=2))
                return clients[number].turn(turn).leases

            claimed = at_once(4, claim)
            leases = [lease for each in claimed for lease in each]

            assert [lease.hold for lease in leases].count(Hold.HELD) == 1
            assert {lease.hold for lease in leases} == {Hold.HELD, Hold.BUSY}
            for number, each in enumerate(claimed):
                backend.turn(
                    Turn(owner=f"{number}", settlements=[Settlement.abandon(lease, "next round") for lease in each])
                )
            # A claim that skipped what others had locked may have left some.
            backend.cancel([job.id for job in backend.list(_LIVE)], "next round")

    def test_a_unique_key_that_many_ask_for_at_once_has_one_holder(self, backend, open_backend):
        clients = [backend, open_backend(), open_backend(), open_backend()]
        for number in range(10):
            key = f"k{number}"

            answers = at_once(4, lambda at, key=key: clients[at].enqueue([an_envelope(unique_key=key)])[0])

            (holder,) = [answer.id for answer in answers if answer.created]
            assert {answer.existing_id for answer in answers if not answer.created} == {holder}

    def test_a_session_is_opened_by_all_who_open_it(self, backend, open_backend):
        clients = [backend, open_backend(), open_backend()]

        assert at_once(3, lambda at: clients[at].open_session(Session(owner="me"))) == [[], [], []]
        assert backend.extend("me").alive
