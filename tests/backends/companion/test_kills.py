"""Killed between any two writes, to broker or store, a process loses no job, and none is said to be what it is not.

Every verb is run once to count its writes and questions to the two, and then again for each of them: killed before it is
sent, and killed after it was done but before its answer came.  To the broker, a process that is killed is a connection that
ends; to the store, a session that a sweep ends.  Then another process does what its supervisor and its workers would do,
and all that was accepted must come to its end, once.
"""

import itertools

import pytest

from onward.backend import Query, Settlement, Turn
from onward.job.states import FINISHED, State
from onward.testing.contract.builders import a_claim, a_failure, a_lease, an_envelope, some_envelopes

DAY = 86_400
LOOKS = {"clock", "capabilities", "url"}


class Killed(BaseException):
    """Not caught by the code under test."""


class Mortal:
    """A process's way to one of the two: it is killed at one of its calls, and after that nothing of it arrives."""

    def __init__(self, real, life):
        self._real = real
        self._life = life

    def __getattr__(self, name):
        found = getattr(self._real, name)
        if name in LOOKS or not callable(found):
            return found

        def call(*args, **kwargs):
            return self._life.spend(lambda: found(*args, **kwargs), name)

        return call


class Life:
    def __init__(self, *, kill_at=None, unanswered=False):
        self.calls = []
        self.counting = False
        self._kill_at, self._unanswered = kill_at, unanswered
        self._dead = False

    def spend(self, call, name):
        if self._dead:
            raise Killed
        if not self.counting:
            return call()
        self.calls.append(name)
        if len(self.calls) - 1 != self._kill_at:
            return call()
        if self._unanswered:
            call()
        self._dead = True
        raise Killed


class Mortals:
    """Runs a verb in processes that are killed, at every one of its calls in turn."""

    def __init__(self, open_pair, clock):
        self._open_pair = open_pair
        self._clock = clock

    def deaths(self, prepare, act):
        """Gives what was prepared and how far it got, for every death."""
        _, total = self._run(prepare, act, Life())
        assert total
        self.finish([])
        for kill_at, unanswered in itertools.product(range(len(total)), (False, True)):
            prepared, calls = self._run(prepare, act, Life(kill_at=kill_at, unanswered=unanswered))
            yield prepared, calls if unanswered else calls[:-1]

    def _run(self, prepare, act, life):
        backend = self._open_pair()
        real_broker, real_store = backend.broker, backend.store
        mortal = type(backend)(Mortal(real_broker, life), Mortal(real_store, life), clock=self._clock)
        prepared = prepare(mortal)
        life.counting = True
        try:
            act(mortal, prepared)
        except Killed:
            pass
        else:
            assert life._kill_at is None, "it should have been killed"
        life._dead = True
        mortal._deliveries.close()
        backend.close()
        return prepared, life.calls

    def finish(self, ids):
        """What supervisors and workers do: sweep, then run what comes until nothing does.  Gives how often each job ran."""
        runs = dict.fromkeys(ids, 0)
        backend = self._open_pair()
        for _ in range(4):
            self._clock.advance(601)
            backend.reap()
            while leases := backend.claim(a_claim(owner="survivor", queues=("default", "dead"), limit=10)):
                for lease in leases:
                    runs[lease.envelope.id] = runs.get(lease.envelope.id, 0) + 1
                assert all(answer.applied for answer in backend.settle([Settlement.ack(lease) for lease in leases]))
        self._clock.advance(DAY)  # what was put aside because its job ran elsewhere is removed by now
        assert backend.claim(a_claim(owner="survivor", queues=("default", "dead"))) == []
        states = {job_id: stored and stored.state for job_id in ids for stored in [backend.get(job_id)]}
        messages = sum(count for state, count in backend.broker.counts().items() if state is not State.DISCARDED)
        assert messages == 0
        backend.close()
        return runs, states


@pytest.fixture
def mortals(open_pair, clock):
    return Mortals(open_pair, clock)


def claimed(backend):
    return a_lease(backend)


@pytest.mark.promise("F65", "F66")
def test_an_enqueue_that_is_cut_off_leaves_jobs_that_run_once_or_none(mortals, report):
    half = 0
    for batch, done in mortals.deaths(lambda _: some_envelopes(3), lambda backend, batch: backend.enqueue(batch)):
        ids = [each.id for each in batch]
        runs, states = mortals.finish(ids)
        if "enqueue" in done:  # the store has them: they will run, although the caller was not told so
            assert set(runs.values()) == {1}, done
            assert set(states.values()) == {State.COMPLETED}
            half += 1
        else:
            assert set(runs.values()) == {0}
            assert set(states.values()) == {None}
    report(f"companion enqueue: {half} deaths between store and broker, every job ran once")


@pytest.mark.promise("F65", "F66")
def test_a_claim_that_is_cut_off_loses_nothing(mortals):
    def ready(backend):
        batch = some_envelopes(3)
        backend.enqueue(batch)
        backend.claim(a_claim(queues=("nothing",)))
        return [each.id for each in batch]

    for ids, done in mortals.deaths(ready, lambda backend, _: backend.claim(a_claim(limit=2))):
        runs, states = mortals.finish(ids)
        assert runs == dict.fromkeys(ids, 1), done
        assert set(states.values()) == {State.COMPLETED}


PUT_BACK = {
    "nack": lambda lease: Settlement.nack(lease, 5, failure=a_failure()),
    "snooze": lambda lease: Settlement.snooze(lease, 5),
    "park": lambda lease: Settlement.park(lease, 5, "unknown"),
    "release": Settlement.release,
    "crashed": lambda lease: Settlement.crashed(lease, "killed"),
}
ENDED = {
    "ack": (Settlement.ack, State.COMPLETED),
    "skip": (lambda lease: Settlement.skip(lease, "done"), State.COMPLETED),
    "cancelled": (lambda lease: Settlement.cancelled(lease, "stopped"), State.CANCELLED),
    "abandon": (lambda lease: Settlement.abandon(lease, "gave up", failure=a_failure()), State.DISCARDED),
}


@pytest.mark.promise("F66")
@pytest.mark.parametrize("move", PUT_BACK)
def test_a_job_that_is_put_back_runs_once_more_wherever_that_is_cut_off(mortals, move):
    for lease, done in mortals.deaths(claimed, lambda backend, lease: backend.settle([PUT_BACK[move](lease)])):
        job_id = lease.envelope.id
        runs, states = mortals.finish([job_id])
        assert runs == {job_id: 1}, done
        assert states == {job_id: State.COMPLETED}


@pytest.mark.promise("F65", "F66")
@pytest.mark.parametrize("move", ENDED)
def test_a_job_whose_end_the_store_has_heard_of_never_runs_again(mortals, move):
    settlement, state = ENDED[move]
    for lease, done in mortals.deaths(claimed, lambda backend, lease: backend.settle([settlement(lease)])):
        job_id = lease.envelope.id
        runs, states = mortals.finish([job_id])
        if "turn" in done:
            assert (runs, states) == ({job_id: 0}, {job_id: state}), done
        else:
            assert (runs, states) == ({job_id: 1}, {job_id: State.COMPLETED})


@pytest.mark.promise("F65")
def test_a_dead_letter_comes_wherever_the_discard_is_cut_off(mortals):
    letters = {}

    def abandon(backend, lease):
        letters[lease.envelope.id] = letter = an_envelope(queue="dead")
        backend.settle([Settlement.abandon(lease, "gave up", dead_letter=letter)])

    for lease, done in mortals.deaths(claimed, abandon):
        letter = letters[lease.envelope.id].id
        runs, states = mortals.finish([lease.envelope.id, letter])
        assert runs[letter] == ("turn" in done), done
        assert states[lease.envelope.id] is (State.DISCARDED if "turn" in done else State.COMPLETED)


@pytest.mark.promise("F65")
def test_a_replay_that_is_cut_off_runs_the_job_or_leaves_it_dead(mortals):
    def dead(backend):
        lease = a_lease(backend)
        backend.abandon(lease, "gave up")
        return lease.envelope.id

    query = {"states": frozenset({State.DISCARDED})}
    for job_id, done in mortals.deaths(dead, lambda backend, job_id: backend.replay(Query(ids=(job_id,), **query))):
        runs, states = mortals.finish([job_id])
        assert (runs[job_id], states[job_id]) in ([(1, State.COMPLETED)] if done else [(0, State.DISCARDED)])


def test_what_is_made_due_is_run_wherever_that_is_cut_off(mortals):
    def later(backend):
        envelope = an_envelope(delay=60)
        backend.enqueue([envelope])
        return envelope.id

    for job_id, _ in mortals.deaths(later, lambda backend, job_id: backend.retry([job_id])):
        assert mortals.finish([job_id]) == ({job_id: 1}, {job_id: State.COMPLETED})


def test_a_cancelled_job_does_not_run_wherever_that_is_cut_off(mortals):
    def waiting(backend):
        envelope = an_envelope()
        backend.enqueue([envelope])
        return envelope.id

    for job_id, done in mortals.deaths(waiting, lambda backend, job_id: backend.cancel([job_id], "not wanted")):
        expected = ({job_id: 0}, {job_id: State.CANCELLED}) if done else ({job_id: 1}, {job_id: State.COMPLETED})
        assert mortals.finish([job_id]) == expected


def test_a_sweep_that_is_cut_off_gives_back_what_was_held(mortals, open_pair):
    def left_behind(backend):
        other = open_pair()
        lease = a_lease(other, owner="dead")
        other.broker.close()  # its process is killed
        return lease.envelope.id

    for job_id, _ in mortals.deaths(left_behind, lambda backend, _: backend.reap(owner="dead")):
        assert mortals.finish([job_id]) == ({job_id: 1}, {job_id: State.COMPLETED})


def test_a_turn_that_settles_and_claims_loses_nothing_anywhere(mortals, report):
    def one_in_hand(backend):
        lease = a_lease(backend)
        more = some_envelopes(2)
        backend.enqueue(more)
        return lease, [each.id for each in more]

    def turn(backend, prepared):
        claim = a_claim(limit=2)
        return backend.turn(Turn(owner="worker", settlements=[Settlement.ack(prepared[0])], claim=claim))

    count = 0
    for (lease, more), done in mortals.deaths(one_in_hand, turn):
        runs, states = mortals.finish([lease.envelope.id, *more])
        assert set(states.values()) == {State.COMPLETED}
        assert set(states.values()) <= FINISHED
        assert [runs[job_id] for job_id in more] == [1, 1], done
        count += 1
    report(f"companion turn: {count} deaths, 0 lost, 0 run after their success was stored")
