"""Killed between any two commands of a verb, a process loses no job, and leaves at most one copy that can be explained.

Every verb is run once to count its commands, and then again for each of them: killed before it is sent, and killed after it
was done but before its answer came.  To the server a process that is killed is a connection that ends.
"""

import contextlib
from collections import Counter

import greenstalk
import pytest

from onward.backend import Settlement
from onward.backends.beanstalk import pipeline
from onward.backends.beanstalk.body import decode
from onward.testing.contract.builders import a_claim, a_failure, an_envelope, some_envelopes

TUBE, LETTERS = "onward.default.default", "onward.default.dead"
DAY = 86_400


class Killed(BaseException):
    """Not caught by the code under test."""


class Killing:
    """Kills a client at one of its commands.  Of commands that are sent in one breath, those before it are done."""

    def __init__(self, monkeypatch):
        self.commands = []
        self._at, self._answered = None, True
        one_by_one, in_one_breath = greenstalk.Client._send_cmd, pipeline._send

        def send(client, command, expected):
            if client in self._ours and self._dies_of([command]) is not None:
                if not self._answered:
                    one_by_one(client, command, expected)
                self._die()
            return one_by_one(client, command, expected)

        def send_all(client, commands):
            last = self._dies_of(commands) if client in self._ours else None
            if last is None:
                in_one_breath(client, commands)
                return
            done = commands[: last + (not self._answered)]
            in_one_breath(client, done)
            for _ in done:
                pipeline._answer(client)
            self._die()

        self._ours = []
        monkeypatch.setattr(greenstalk.Client, "_send_cmd", send)
        monkeypatch.setattr(pipeline, "_send", send_all)

    def _dies_of(self, commands):
        """Note them, as far as it lives; gives the place of the one that kills it."""
        for at, command in enumerate(commands):
            self.commands.append(command.split()[0].decode())
            if len(self.commands) - 1 == self._at:
                return at
        return None

    def _die(self):
        for each in self._ours:
            each.close()
        raise Killed

    def watch(self, backend, *, kill_at=None, unanswered=False):
        connections = [backend._producer, backend._asker, *(each.connection for each in backend._sessions.values())]
        self._ours = [each._client for each in connections if each is not None]
        self.commands, self._at, self._answered = [], kill_at, not unanswered


def everything(server, clock, tube):
    """What a tube holds, by the job's id: how often alive and how often dead."""
    clock.advance(DAY)  # whatever was delayed is ready now
    alive, dead = Counter(), Counter()
    with server.connect(watch=tube, use=tube) as client, contextlib.suppress(greenstalk.TimedOutError):
        with contextlib.suppress(greenstalk.NotFoundError):
            while True:
                buried = client.peek_buried()
                dead[decode(buried.body)[0].id] += 1
                client.delete(buried)
        while True:
            job = client.reserve(timeout=0)
            header, _ = decode(job.body)
            (dead if header.dead else alive)[header.id] += 1
            client.delete(job)
    return alive, dead


def killed_at_every_command(killing, open_backend, prepare, act):
    """Gives, for every death, the commands that the server has done and what was prepared."""
    first = open_backend()
    prepared = prepare(first)
    killing.watch(first)
    act(first, prepared)
    total = len(killing.commands)
    first.close()
    for kill_at in range(total):
        for unanswered in (False, True):
            backend = open_backend()
            prepared = prepare(backend)
            killing.watch(backend, kill_at=kill_at, unanswered=unanswered)
            with pytest.raises(Killed):
                act(backend, prepared)
            done = killing.commands if unanswered else killing.commands[:-1]
            killing.watch(backend)
            backend.close()
            yield list(done), prepared
    yield None, total


@pytest.fixture
def killing(monkeypatch):
    return Killing(monkeypatch)


def claimed(backend):
    """Connections are made, and a job is claimed."""
    backend.enqueue([an_envelope()])
    (lease,) = backend.claim(a_claim())
    return lease


PUT_BACK = {
    "nack": lambda lease: Settlement.nack(lease, 5, failure=a_failure()),
    "snooze": lambda lease: Settlement.snooze(lease, 5),
    "park": lambda lease: Settlement.park(lease, 5, "unknown"),
    "crashed": lambda lease: Settlement.crashed(lease, "killed"),
}
ENDED = {
    "ack": Settlement.ack,
    "skip": lambda lease: Settlement.skip(lease, "done"),
    "cancelled": lambda lease: Settlement.cancelled(lease, "stopped"),
}


@pytest.mark.promise("F66", "S26")
@pytest.mark.parametrize("move", PUT_BACK)
def test_a_job_that_is_put_back_is_there_once_or_twice(killing, open_backend, timed_server, clock, report, move):
    twice = 0
    for deaths, (done, lease) in enumerate(
        killed_at_every_command(
            killing, open_backend, claimed, lambda backend, lease: backend.settle([PUT_BACK[move](lease)])
        )
    ):
        alive, dead = everything(timed_server, clock, TUBE)
        if done is None:
            report(f"beanstalkd {move}: {lease} commands, {deaths} deaths, 0 lost, {twice} times a second copy")
            break
        between = "put" in done and "delete" not in done
        assert alive.pop(lease.envelope.id) == 1 + between, f"killed after {done}"
        twice += between
        assert not dead


@pytest.mark.parametrize("move", ENDED)
def test_a_job_that_has_ended_is_there_until_it_is_removed(killing, open_backend, timed_server, clock, move):
    for done, lease in killed_at_every_command(
        killing, open_backend, claimed, lambda backend, lease: backend.settle([ENDED[move](lease)])
    ):
        alive, dead = everything(timed_server, clock, TUBE)
        if done is not None:
            assert alive == ({} if "delete" in done else {lease.envelope.id: 1}), f"killed after {done}"
            assert not dead


def test_a_released_job_is_there_once(killing, open_backend, timed_server, clock):
    for done, lease in killed_at_every_command(
        killing, open_backend, claimed, lambda backend, lease: backend.release(lease)
    ):
        alive, _ = everything(timed_server, clock, TUBE)
        if done is not None:
            assert alive.pop(lease.envelope.id) == 1


@pytest.mark.promise("F65", "S22")
@pytest.mark.parametrize("letter", [False, True], ids=["", "with a dead letter"])
def test_a_job_that_is_given_up_is_alive_or_dead_or_both(killing, open_backend, timed_server, clock, report, letter):
    def abandon(backend, lease):
        copy = an_envelope(queue="dead") if letter else None
        backend.settle([Settlement.abandon(lease, "gave up", failure=a_failure(), dead_letter=copy)])

    both = 0
    for deaths, (done, lease) in enumerate(killed_at_every_command(killing, open_backend, claimed, abandon)):
        alive, dead = everything(timed_server, clock, TUBE)
        letters, _ = everything(timed_server, clock, LETTERS)
        if done is None:
            report(f"beanstalkd abandon: {lease} commands, {deaths} deaths, 0 lost, {both} times alive and dead")
            break
        puts = done.count("put")
        kept, buried = alive[lease.envelope.id], dead[lease.envelope.id]
        assert (kept, buried) == ("delete" not in done, puts == 1 + letter), f"killed after {done}"
        both += kept and buried
        if letter and not kept:
            assert letters  # it was stored before the original was removed


def test_a_batch_whose_process_is_killed_is_stored_in_part_and_nothing_twice(
    killing, open_backend, timed_server, clock
):
    def ready(backend):
        backend.enqueue([an_envelope()])
        return some_envelopes(3)

    for done, batch in killed_at_every_command(
        killing, open_backend, ready, lambda backend, batch: backend.enqueue(batch)
    ):
        alive, _ = everything(timed_server, clock, TUBE)
        if done is not None:
            assert [alive[each.id] for each in batch] == [at < done.count("put") for at in range(3)]
            assert set(alive.values()) == {1}


def test_a_claim_whose_process_is_killed_leaves_every_job_once(killing, open_backend, timed_server, clock):
    def ready(backend):
        backend.enqueue(batch := some_envelopes(3))
        backend.claim(a_claim(queues=("nothing",)))
        return batch

    for done, batch in killed_at_every_command(
        killing, open_backend, ready, lambda backend, _: backend.claim(a_claim(limit=2))
    ):
        alive, _ = everything(timed_server, clock, TUBE)
        if done is not None:
            assert [alive[each.id] for each in batch] == [1, 1, 1], f"killed after {done}"


def test_a_session_that_ends_itself_and_is_killed_leaves_every_job(killing, open_backend, timed_server, clock):
    def two(backend):
        backend.enqueue(batch := some_envelopes(2))
        return backend.claim(a_claim(limit=2)) and batch

    begun = {}

    def reap(backend, batch):
        held = sorted(next(iter(backend._sessions.values())).held)
        begun["one"] = held[:1]
        backend.reap(owner="worker", started=held[:1])

    for done, batch in killed_at_every_command(killing, open_backend, two, reap):
        alive, _ = everything(timed_server, clock, TUBE)
        if done is not None:
            between = "put" in done and "delete" not in done
            assert sorted(alive[each.id] for each in batch) == sorted([1, 1 + between]), f"killed after {done}"
