"""Which slot is filled when."""

import signal
from pathlib import Path

import pytest

from onward.supervisor.fleet import Fleet
from onward.supervisor.messages import Hello
from onward.supervisor.options import ProcessOptions
from onward.supervisor.process import WorkerProcess, fresh_interpreter, oom_kills

NEVER = float("inf")


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def fleet_of(clock):
    """A fleet of processes that wait for ever."""
    fleets = []

    def fleet_of(count=1, *, program=("/bin/sh", "-c", "sleep 300"), **options):
        fleets.append(fleet := Fleet(program, ProcessOptions(app="shop:jobs", **options), count, clock=clock))
        return fleet

    yield fleet_of
    for fleet in fleets:
        for process in fleet:
            process.kill("the end of the test")
            process.collect_exited()
            process.forget()


def hello():
    return Hello(settings=None, jobs=[], queues=[], files=[])


def collect(fleet, process, *, polite=False):
    process.kill("by the test")
    code = process.collect_exited()
    fleet.remove(process, polite=polite)
    process.forget()
    return code


@pytest.mark.promise("F06")
def test_the_first_death_is_followed_by_a_start_at_once_and_the_next_ones_by_pauses_that_double(fleet_of, clock):
    fleet = fleet_of()
    pauses = []
    for _ in range(10):
        (process,) = fleet.start_due()
        clock.now += 1
        collect(fleet, process)
        pauses.append(fleet.next_start() - clock.now)
        assert pauses[-1] == 0 or list(fleet.start_due()) == []
        clock.now = fleet.next_start()

    assert pauses == [0, 0.25, 0.5, 1, 2, 4, 8, 16, 30, 30]


def test_who_lived_for_long_or_left_politely_does_not_make_the_next_one_wait(fleet_of, clock):
    fleet = fleet_of()
    for _ in range(3):
        (process,) = fleet.start_due()
        clock.now += 11
        collect(fleet, process)
        assert fleet.next_start() == clock.now
    for _ in range(3):
        (process,) = fleet.start_due()
        collect(fleet, process, polite=True)
        assert fleet.next_start() == clock.now


def test_who_retires_is_replaced_at_once_and_lives_on(fleet_of):
    fleet = fleet_of(2)
    first, second = fleet.start_due()
    fleet.retire(first)
    (third,) = fleet.start_due()

    assert set(fleet) == {first, second, third}
    collect(fleet, first)
    assert list(fleet.start_due()) == []
    assert fleet.by_pid(second.pid) is second


@pytest.mark.promise("F93")
def test_a_fleet_that_is_done_stays_done_when_processes_retire(fleet_of):
    fleet = fleet_of(2)
    first, second = fleet.start_due()
    fleet.end()
    fleet.retire(first)
    collect(fleet, first)
    fleet.retire(second)
    assert not fleet.done
    collect(fleet, second)

    assert (list(fleet.start_due()), fleet.next_start(), fleet.done) == ([], NEVER, True)


def test_so_many_jobs_are_shared_out_and_a_successor_gets_what_is_left(fleet_of):
    fleet = fleet_of(3, max_jobs=7)
    processes = list(fleet.start_due())
    for process, settled in zip(processes, (1, 2, 0), strict=True):
        process.board.count(settled)
        fleet.retire(process)  # it wants a successor, who has to wait
    assert list(fleet.start_due()) == []
    for process in processes:
        collect(fleet, process)
    successors = list(fleet.start_due())

    assert [slot.options.max_jobs for slot in fleet._slots] == [2, 0, 2]
    assert len(successors) == 2
    assert len(fleet_of(3, max_jobs=2)) == 2


def test_those_who_end_before_they_said_hello_are_counted(fleet_of):
    fleet = fleet_of(3)
    first, second, third = fleet.start_due()
    second.hello = hello()
    for process in (first, second, third):
        collect(fleet, process)

    assert fleet.failed_starts == 2


@pytest.mark.promise("F06")
def test_a_process_that_cannot_be_started_is_tried_again_after_a_pause(fleet_of, clock):
    fleet = fleet_of(program=("/nowhere/to/be/found",))
    files = len(list(Path("/proc/self/fd").iterdir()))
    pauses = []
    for _ in range(4):
        assert list(fleet.start_due()) == []
        pauses.append(fleet.next_start() - clock.now)
        clock.now = fleet.next_start()

    assert pauses == [0.25, 0.5, 1, 2]
    assert len(list(Path("/proc/self/fd").iterdir())) == files
    assert list(fleet) == []


def test_a_process_that_ends_by_itself_tells_how():
    for program, cause in ((("/bin/sh", "-c", "exit 3"), "exited with code 3"), (("/bin/true",), "exited with code 0")):
        process = WorkerProcess(1, fresh_interpreter(program, ProcessOptions(app="shop:jobs")))
        assert process.cause_of_death(process.collect_exited(), out_of_memory=False) == cause
        process.forget()


def test_the_kernel_is_blamed_only_for_what_it_does():
    process = WorkerProcess(1, fresh_interpreter(("/bin/sh", "-c", "kill -9 $$"), ProcessOptions(app="shop:jobs")))
    code = process.collect_exited()

    assert code == -signal.SIGKILL
    assert process.cause_of_death(code, out_of_memory=True) == "killed by SIGKILL: the system was out of memory"
    process.kill("its time was up")
    assert process.cause_of_death(code, out_of_memory=True) == "its time was up"
    process.forget()


@pytest.mark.parametrize(
    ("texts", "kills"),
    [
        (["low 0\nhigh 0\nmax 7\noom 5\noom_kill 3\noom_group_kill 0\n"], 3),
        ([None, "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"], 2),
        ([None, None], 0),
        (["what a lovely day", "oom_kill 1\n"], 1),
        (["oom 5\n"], 0),
    ],
)
def test_the_kernel_is_asked_how_many_it_killed(tmp_path, texts, kills):
    files = [tmp_path / str(number) for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        if text is not None:
            file.write_text(text)

    assert oom_kills(files) == kills


def test_one_process_of_a_fleet_books_schedules_and_so_does_the_one_that_replaces_it(fleet_of):
    fleet = fleet_of(3, max_jobs=7)
    first, *others = fleet.start_due()
    collect(fleet, first, polite=True)
    (again,) = fleet.start_due()

    assert [slot.options.ticks for slot in fleet._slots] == [True, False, False]
    assert fleet._slots[0].process is again
    assert len(others) == 2
