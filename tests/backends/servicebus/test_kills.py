"""Killed between any two commands of a verb, a process loses no job, and leaves at most one copy that can be explained.

Every verb is run once to count its commands, and then again for each of them: killed before it is sent, and killed after it
was done but before its answer came.  To the server a process that is killed is one that says nothing more: what it had
locked comes back when the locks expire.
"""

from collections import Counter

import pytest
from azure.servicebus import ServiceBusReceiver, ServiceBusSender

from onward.backend import Query, Settlement
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_failure, an_envelope, some_envelopes

COMMANDS = {
    ServiceBusSender: ("send_messages", "schedule_messages"),
    ServiceBusReceiver: (
        "peek_messages",
        "receive_messages",
        "renew_message_lock",
        "complete_message",
        "abandon_message",
        "dead_letter_message",
    ),
}
DAY = 86_400


class Killed(BaseException):
    """Not caught by the code under test."""


class Killing:
    """Kills a client at one of its commands."""

    def __init__(self, monkeypatch):
        self.commands = []
        self._at, self._answered, self._watching = None, True, False
        for kind, names in COMMANDS.items():
            for name in names:
                monkeypatch.setattr(kind, name, self._guarded(name.partition("_")[0], getattr(kind, name)))

    def _guarded(self, command, real):
        def call(link, *arguments, **options):
            if not self._watching:
                return real(link, *arguments, **options)
            self.commands.append(command)
            at = len(self.commands) - 1
            if self._at is None or at < self._at:
                return real(link, *arguments, **options)
            if at == self._at and not self._answered:
                real(link, *arguments, **options)
            raise Killed  # and the dead say nothing more

        return call

    def watch(self, *, kill_at=None, unanswered=False):
        self.commands, self._at, self._answered, self._watching = [], kill_at, not unanswered, True

    def look_away(self):
        self._watching = False


@pytest.fixture
def killing(monkeypatch):
    return Killing(monkeypatch)


@pytest.fixture
def killed_at_every_command(killing, clients, clock, timed_server):
    """Gives, for every death, the commands that the server has done and what was prepared; at last how many there are."""

    def killed(prepare, act):
        with clients.lent(clock) as open_client:
            backend = open_client()
            prepared = prepare(backend)
            killing.watch()
            act(backend, prepared)
            total = len(killing.commands)
            killing.look_away()
        timed_server.clear()
        for kill_at in range(total):
            for unanswered in (False, True):
                with clients.lent(clock) as open_client:
                    backend = open_client()
                    prepared = prepare(backend)
                    killing.watch(kill_at=kill_at, unanswered=unanswered)
                    with pytest.raises(Killed):
                        act(backend, prepared)
                    killing.look_away()
                    for channel in backend._channels.values():
                        channel._arrived.clear()  # the dead give nothing back
                yield killing.commands[: kill_at + unanswered], prepared
                timed_server.clear()
        yield None, total

    return killed


@pytest.fixture
def everything(messages, clock, timed_server):
    """What a queue holds, by the job's id: how often alive and how often dead."""

    def everything(queue="default"):
        clock.advance(DAY)  # locks are over, and whatever was scheduled is there
        timed_server.tick()
        return tuple(Counter(message.content.application["id"] for message in found) for found in messages(queue))

    return everything


def claimed(backend):
    """Links are open, and a job is claimed."""
    backend.enqueue([an_envelope()])
    (lease,) = backend.claim(a_claim())
    return lease


PUT_BACK = {
    "nack": lambda lease: Settlement.nack(lease, 5, failure=a_failure()),
    "snooze": lambda lease: Settlement.snooze(lease, 5),
    "park": lambda lease: Settlement.park(lease, 5, "unknown"),
    "release": Settlement.release,
    "crashed": lambda lease: Settlement.crashed(lease, "killed"),
}
ENDED = {
    "ack": Settlement.ack,
    "skip": lambda lease: Settlement.skip(lease, "done"),
    "cancelled": lambda lease: Settlement.cancelled(lease, "stopped"),
}


@pytest.mark.promise("F66", "S26")
@pytest.mark.parametrize("move", PUT_BACK)
def test_a_job_that_is_put_back_is_there_once_or_twice(killed_at_every_command, everything, report, move):
    twice = 0
    for deaths, (done, lease) in enumerate(
        killed_at_every_command(claimed, lambda backend, lease: backend.settle([PUT_BACK[move](lease)]))
    ):
        if done is None:
            assert lease == 3  # renew, schedule, complete
            report(f"Service Bus {move}: {lease} commands, {deaths} deaths, 0 lost, {twice} times a second copy")
            break
        alive, dead = everything()
        between = "schedule" in done and "complete" not in done
        assert alive.pop(lease.envelope.id) == 1 + between, f"killed after {done}"
        twice += between
        assert not alive
        assert not dead


@pytest.mark.parametrize("move", ENDED)
def test_a_job_that_has_ended_is_there_until_it_is_removed(killed_at_every_command, everything, move):
    for done, lease in killed_at_every_command(claimed, lambda backend, lease: backend.settle([ENDED[move](lease)])):
        if done is not None:
            alive, dead = everything()
            assert alive == ({} if "complete" in done else {lease.envelope.id: 1}), f"killed after {done}"
            assert not dead


@pytest.mark.promise("F65", "S22")
@pytest.mark.parametrize("letter", [False, True], ids=["", "with a dead letter"])
def test_a_job_that_is_given_up_is_alive_or_dead(killed_at_every_command, everything, report, letter):
    def abandon(backend, lease):
        copy = an_envelope(queue="dead") if letter else None
        backend.settle([Settlement.abandon(lease, "gave up", failure=a_failure(), dead_letter=copy)])

    for deaths, (done, lease) in enumerate(killed_at_every_command(claimed, abandon)):
        if done is None:
            report(f"Service Bus abandon: {lease} commands, {deaths} deaths, 0 lost, never alive and dead")
            break
        alive, dead = everything()
        letters, _ = everything("dead")
        buried = "dead" in done
        assert (alive[lease.envelope.id], dead[lease.envelope.id]) == (not buried, buried), f"killed after {done}"
        if letter and buried:
            assert letters  # it was stored before the job was moved


def test_a_batch_whose_process_is_killed_is_stored_whole_or_not_at_all(killed_at_every_command, everything):
    for done, batch in killed_at_every_command(
        lambda _: some_envelopes(3), lambda backend, batch: backend.enqueue(batch)
    ):
        if done is not None:
            alive, _ = everything()
            assert [alive[each.id] for each in batch] == [len(done)] * 3


def test_a_claim_whose_process_is_killed_leaves_every_job_once(killed_at_every_command, everything):
    def ready(backend):
        backend.enqueue(batch := some_envelopes(3))
        return batch

    for done, batch in killed_at_every_command(ready, lambda backend, _: backend.claim(a_claim(limit=2))):
        if done is not None:
            alive, _ = everything()
            assert [alive[each.id] for each in batch] == [1, 1, 1], f"killed after {done}"


def test_a_session_that_ends_itself_and_is_killed_leaves_every_job(killed_at_every_command, everything):
    def two(backend):
        backend.enqueue(batch := some_envelopes(2))
        return backend.claim(a_claim(limit=2)) and batch

    def reap(backend, batch):
        held = sorted(next(iter(backend._sessions.values())).held)
        backend.reap(owner="worker", started=held[:1])

    for done, batch in killed_at_every_command(two, reap):
        if done is not None:
            alive, _ = everything()
            between = done.count("schedule") > done.count("complete")
            assert sorted(alive[each.id] for each in batch) == sorted([1, 1 + between]), f"killed after {done}"


@pytest.mark.promise("F65")
def test_a_replay_that_is_killed_leaves_the_job_dead_or_alive_or_both(killed_at_every_command, everything, report):
    def dead(backend):
        lease = claimed(backend)
        backend.abandon(lease, "gave up")
        return lease

    both = 0
    query = Query(states=frozenset({State.DISCARDED}), queue="default")
    for deaths, (done, lease) in enumerate(
        killed_at_every_command(dead, lambda backend, _: backend.replay_dead(query))
    ):
        if done is None:
            report(f"Service Bus replay: {lease} commands, {deaths} deaths, 0 lost, {both} times alive and dead")
            break
        alive, buried = everything()
        sent, removed = "send" in done, "complete" in done
        assert (alive[lease.envelope.id], buried[lease.envelope.id]) == (sent, not removed), f"killed after {done}"
        both += sent and not removed
