"""Programs that the shell handler runs end with the process that waits for them."""

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest

from onward import State
from onward.supervisor.run_board import RunBoard
from tests.supervisor.fleets import alive, eventually, gone, status


@pytest.mark.promise("A3", "S39")
def test_a_program_and_what_it_started_end_with_the_worker_s_process(open_shop, start, folder):
    """On a thread of the worker the first time; as a suspect, in a process of its own, the second time."""
    pids = folder / "pids"
    pids.touch()
    shop = open_shop(handlers={"shell": {"allow": ["/bin/sh"]}}, queue_handlers={"ops": ["shell"]})
    fleet = start(shop)
    program = ["/bin/sh", "-c", f"sleep 100 & echo $$ $! >> {pids}; wait"]
    handle = shop.jobs.define("shell", program).queue("ops").dispatch()

    def started(times):
        lines = eventually(lambda: lines if len(lines := pids.read_text().splitlines()) >= times else None)
        return [int(pid) for pid in lines[-1].split()]

    first = started(1)
    worker = int(status(first[0])[1])  # who waits for it
    eventually(lambda: programs_known_of(worker) == first[:1])
    os.kill(worker, signal.SIGKILL)
    second = started(2)

    assert not any(map(alive, first))
    handle.cancel()
    for pid in second:
        gone(pid)
    (record,) = shop.ended(handle)
    assert (record.state, record.crashes) == (State.CANCELLED, 1)
    assert fleet.stop() == 0


def programs_known_of(worker):
    """What a worker process has written down for its supervisor."""
    place = next(fd for fd in Path(f"/proc/{worker}/fd").iterdir() if "onward-board" in str(fd.readlink()))
    with closing(RunBoard(os.open(place, os.O_RDWR))) as board:
        return [begun.program for begun in board.begun()]
