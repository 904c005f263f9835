"""A worker process dies: nothing is lost, the guilty are found and the innocent go free."""

import os
import signal
import time

import pytest

from onward import State
from tests.supervisor.fleets import CLAIMS_ALL, alive, eventually, gone, seconds_of

pytestmark = pytest.mark.every_store

RECOVERY = 1.0  # seconds: what is promised, beside the time that processes take to start


@pytest.mark.redis_too
@pytest.mark.promise("F01", "F04", "F06", "F15")
def test_what_a_killed_process_ran_comes_back_at_once_and_its_slot_is_filled(open_shop, start):
    """Long before its lease is over.  A busy machine starts processes slowly: how slowly is measured before and after."""
    shop = open_shop(lease_for=600)
    start_takes = [seconds_of(lambda: start(shop, "--queues", "other").stop())]
    fleet = start(shop, "--processes", 2, "--concurrency", 2)
    held = shop.hold.enqueue("first")
    victim = shop.noted("holding", name="first")["pid"]
    (neighbour,) = [pid for pid in fleet.workers(2) if pid != victim]

    killed_at = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    again = shop.noted("holding", 2, name="first")
    eventually(lambda: victim not in fleet.workers(2))
    refilled_after = time.monotonic() - killed_at
    start_takes.append(seconds_of(lambda: start(shop, "--queues", "other").stop()))
    shop.let("first")
    (record,) = shop.ended(held)

    assert again["at"] - killed_at < RECOVERY + 2 * max(start_takes)
    assert refilled_after < RECOVERY + 2 * max(start_takes)
    assert alive(neighbour)
    assert (record.state, record.attempts, record.crashes) == (State.COMPLETED, 1, 1)
    assert [(error.kind, error.message) for error in record.errors] == [("Crash", "killed by SIGKILL")]
    assert fleet.stop() == 0
    assert shop.sessions() == {}


@pytest.mark.promise("F02", "F19")
def test_a_process_that_dies_after_its_work_and_before_it_could_say_so_is_settled_once(shop, start):
    fleet = start(shop, "--concurrency", 2)
    held = shop.hold.enqueue("work")
    victim = shop.noted("holding", name="work", delivery=1)["pid"]
    with shop.locked():  # no process can settle
        shop.let("work")
        shop.noted("held", name="work")
        os.kill(victim, signal.SIGKILL)
        gone(victim)
    (record,) = shop.ended(held)

    runs = shop.diary("holding", name="work")
    assert [(run["delivery"], run["attempt"]) for run in runs] == [(1, 1), (2, 1)]  # the same attempt, delivered again
    assert (record.state, record.attempts, record.crashes, record.delivery) == (State.COMPLETED, 1, 1, 2)
    assert shop.store.finished() == 1
    assert fleet.stop() == 0


@pytest.mark.promise("F05")
def test_the_culprit_is_discarded_with_the_cause_and_the_innocent_survive(open_shop, start):
    shop = open_shop(dead_letter_queue="letters")
    fleet = start(shop)
    names = ["one", "two", "three"]
    innocent = [shop.hold.enqueue(name) for name in names]
    for name in names:
        shop.noted("holding", name=name)
    culprit = shop.die.enqueue()
    for name in names:
        shop.noted("holding", 2, name=name)
    shop.let(*names)
    records = shop.ended(*innocent)
    eventually(lambda: culprit.record().crashes >= 2)
    shop.jobs.retry(culprit.id)  # it would wait for ten seconds
    (dead,) = shop.ended(culprit)

    assert [(each.state, each.attempts, each.crashes) for each in records] == [(State.COMPLETED, 1, 1)] * 3
    assert (dead.state, dead.attempts, dead.crashes) == (State.DISCARDED, 0, 3)
    assert dead.reason == "crashed 3 times: killed by SIGKILL"
    assert len({run["pid"] for run in shop.diary("dying")}) == 3
    assert fleet.log.count("died: killed by SIGKILL") == 1  # from then on it was alone
    assert shop.noted("discarded")["id"] == culprit.id
    eventually(lambda: shop.jobs.counts("letters")[State.AVAILABLE] == 1)
    assert fleet.stop() == 0


@pytest.mark.promise("F04", "F05")
def test_the_record_says_how_the_process_ended(shop, start):
    fleet = start(shop, "--concurrency", 1)
    handles = [shop.leave.enqueue(3), shop.leave.enqueue(0), shop.die.enqueue(int(signal.SIGSEGV))]
    eventually(lambda: all(handle.record().crashes >= 2 for handle in handles))  # once among others, once alone

    causes = [[error.message for error in handle.record().errors[:2]] for handle in handles]
    assert causes == [["exited with code 3"] * 2, ["exited with code 0"] * 2, ["killed by SIGSEGV"] * 2]
    assert fleet.stop() == 0


@pytest.mark.promise("A21", "F05")
def test_a_discard_by_the_supervisor_reaches_those_who_subscribed_and_the_dead_letter_queue(open_shop, start):
    """The supervisor decides that, and has no subscribers."""
    shop = open_shop(dead_letter_queue="letters")
    fleet = start(shop)
    dead = shop.die_once.enqueue()
    (record,) = shop.ended(dead)

    assert (record.state, record.crashes, record.reason) == (State.DISCARDED, 1, "crashed 1 time: killed by SIGKILL")
    assert shop.noted("discarded")["id"] == dead.id
    (letter,) = eventually(lambda: shop.jobs.list(queue="letters"))
    assert (letter.job, letter.payload["id"]) == ("dead_letter", dead.id)
    assert fleet.stop() == 0
    assert len(shop.diary("discarded")) == 1


@pytest.mark.promise("A10", "A11", "F16", "F69")
def test_what_had_not_begun_goes_back_unharmed(shop, start):
    """The board tells what had begun: what was only claimed has not crashed, and nothing stays behind."""
    shop.add(CLAIMS_ALL)
    fleet = start(shop, "--concurrency", 1)
    first = shop.plain.enqueue_many([(n,) for n in range(300)])  # short ones, so it takes many at a time
    bomb = shop.die_at.enqueue("bomb")
    handles = shop.plain.enqueue_many([(n,) for n in range(300, 600)])
    worker = shop.noted("holding", name="bomb")["pid"]
    shop.ended(*first)  # so that what it still has claimed had not begun, save for the bomb
    with shop.locked():  # what it has in its hand stays there
        claimed = shop.store.executing()
        shop.let("bomb")
        gone(worker)
    records = shop.ended(*handles)
    eventually(lambda: bomb.record().crashes >= 2)

    assert {(record.state, record.attempts, record.crashes) for record in records} == {(State.COMPLETED, 1, 0)}
    assert sum(record.interruptions for record in records) == claimed - 1
    assert sorted(run["n"] for run in shop.diary("plain")) == [*range(600)]  # each once
    assert fleet.stop() == 0
    assert shop.sessions() == {}


@pytest.mark.promise("A3")
def test_a_program_that_a_handler_started_ends_with_its_process(shop, start):
    """Or there would be two of them, one for each run of the handler."""
    fleet = start(shop)
    handle = shop.start_a_program.enqueue("x")
    first = shop.noted("holding", name="x")
    os.kill(first["pid"], signal.SIGKILL)
    second = shop.noted("holding", 2, name="x")

    assert not alive(first["child"])
    handle.cancel()
    gone(second["child"])
    assert shop.ended(handle)[0].state is State.CANCELLED
    assert fleet.stop() == 0


@pytest.mark.promise("F06")
def test_a_process_that_sends_a_malformed_message_is_killed_and_the_others_work_on(shop, start):
    fleet = start(shop, "--processes", 2, "--concurrency", 1)
    held = shop.hold.enqueue("held")
    shop.noted("holding", name="held")
    (babbler,) = shop.ended(shop.babble.enqueue())
    shop.let("held")
    (record,) = shop.ended(held)

    assert (babbler.state, babbler.crashes) == (State.COMPLETED, 1)
    assert babbler.errors[0].message.startswith("it sent a malformed message")
    assert (record.state, record.crashes, record.interruptions) == (State.COMPLETED, 0, 0)
    assert fleet.stop() == 0


@pytest.mark.redis_too
@pytest.mark.promise("S62")
def test_steps_that_were_noted_are_not_called_again_when_their_process_is_killed(open_shop, start):
    shop = open_shop(lease_for=600)
    if not shop.jobs.backend.capabilities.notes:
        pytest.skip("this store does not declare: notes")
    fleet = start(shop, "--concurrency", 2)
    handle = shop.step_and_hold.enqueue()
    os.kill(shop.noted("holding", delivery=1)["pid"], signal.SIGKILL)
    (record,) = shop.ended(handle)

    assert (record.state, record.crashes, record.result) == (State.COMPLETED, 1, [2])
    assert [line["number"] for line in shop.diary("stepped")] == [1, 2, 3]
    assert fleet.stop() == 0


@pytest.mark.redis_too
@pytest.mark.promise("S63")
def test_a_process_that_dies_between_the_effect_of_a_step_and_its_note_calls_it_again(shop, start):
    fleet = start(shop, "--concurrency", 2)
    (record,) = shop.ended(shop.die_before_the_note.enqueue())

    assert (record.state, record.crashes, record.attempts) == (State.COMPLETED, 1, 1)
    charged = shop.diary("charged")
    assert [line["delivery"] for line in charged] == [1, 2]
    assert {line["key"] for line in charged} == {record.result} == {f"{record.id}/charge"}
    assert fleet.stop() == 0
