"""Turns that want the same keys at the same moment, asked alike of every server that locks rows.

Each test holds one key back until both turns wait, so that what happens next does not depend on luck: either both lock keys
in one order and the second waits for the first, or each has what the other one wants.
"""

import threading

import pytest

from onward.backend import Claim, Hold, Settlement, Turn
from onward.testing.contract.builders import a_session, an_envelope
from tests.waiting import eventually

__all__ = ["FIRST", "LAST", "MIDDLE", "KeyOrder", "keyed"]

FIRST, MIDDLE, LAST = "a", "m", "z"


def keyed(key, **options):
    return an_envelope(job="work", idempotency_key=key, **options)


def leases_of(backend, owner, *keys):
    """Leases of jobs with these keys, all of them held, in this order."""
    backend.open_session(a_session(owner))
    backend.enqueue([keyed(key, queue=f"from {owner}") for key in keys])
    leases = backend.turn(Turn(owner=owner, claim=Claim(queues=(f"from {owner}",), limit=len(keys)))).leases
    assert [lease.hold for lease in leases] == [Hold.HELD] * len(keys)
    return leases


def queue_of(backend, name, *keys):
    """Jobs with these keys, to be claimed in this order."""
    backend.enqueue([keyed(key, queue=name) for key in keys])
    return Claim(queues=(name,), limit=len(keys))


class KeyOrder:
    """Needs `backend`, `open_backend`, `server`, `waiting` (how many sessions wait for a lock) and `held_back(key)`."""

    @pytest.fixture
    def crossed(self, backend, open_backend, server, waiting, held_back):
        """Make two turns while a key is held back; their results, once it is let go."""

        def run(*turns):
            clients = [open_backend() for _ in turns]
            for turn in turns:
                backend.open_session(a_session(turn.owner))
            results = {}

            def make(number):
                results[number] = clients[number].turn(turns[number])

            threads = [threading.Thread(target=make, args=(number,), daemon=True) for number in range(len(turns))]
            with server.without_deadlock():
                with held_back(MIDDLE):
                    for number, thread in enumerate(threads, 1):
                        thread.start()
                        eventually(lambda number=number: waiting() >= number, what="it waits for no key")
                for thread in threads:
                    thread.join(60)
            assert sorted(results) == list(range(len(turns)))
            return [results[number] for number in range(len(turns))]

        return run

    @pytest.mark.promise("S33", "F34")
    @pytest.mark.parametrize(
        ("settle", "found"),
        [
            pytest.param(Settlement.ack, Hold.DONE, id="ack"),
            pytest.param(lambda lease: Settlement.nack(lease, 60), Hold.HELD, id="nack"),
        ],
    )
    def test_two_turns_that_end_the_key_that_the_other_takes_both_go_through(self, backend, crossed, settle, found):
        (first,), (last,) = leases_of(backend, "one", FIRST), leases_of(backend, "two", LAST)
        one = Turn(owner="one", settlements=[settle(first)], claim=queue_of(backend, "one", MIDDLE, LAST))
        two = Turn(owner="two", settlements=[settle(last)], claim=queue_of(backend, "two", MIDDLE, FIRST))

        results = crossed(one, two)

        assert all(answer.applied for result in results for answer in result.settled)
        assert sorted(result.leases[0].hold for result in results) == sorted([Hold.HELD, Hold.BUSY])
        assert [result.leases[1].hold for result in results] == [found, found]

    @pytest.mark.promise("S33", "F34")
    def test_two_claims_of_the_same_keys_in_opposite_order_both_go_through(self, backend, crossed):
        one = Turn(owner="one", claim=queue_of(backend, "one", FIRST, MIDDLE, LAST))
        two = Turn(owner="two", claim=queue_of(backend, "two", LAST, MIDDLE, FIRST))

        results = crossed(one, two)

        holds = [{lease.hold for lease in result.leases} for result in results]
        assert sorted(map(sorted, holds)) == sorted([[Hold.HELD], [Hold.BUSY]])

    @pytest.mark.promise("S33", "F34")
    def test_a_turn_that_ends_keys_in_the_opposite_order_of_a_claim_goes_through(self, backend, crossed):
        leases = leases_of(backend, "one", LAST, MIDDLE, FIRST)
        one = Turn(owner="one", settlements=[Settlement.nack(lease, 60) for lease in leases])
        two = Turn(owner="two", claim=queue_of(backend, "two", FIRST, MIDDLE, LAST))

        ended, claimed = crossed(one, two)

        assert all(answer.applied for answer in ended.settled)
        assert len({lease.hold for lease in claimed.leases}) == 1
