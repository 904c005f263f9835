"""What work costs in processor time, and how long it waited for a processor: other programs are not in it."""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")


class Times(NamedTuple):
    """Milliseconds of some processes, since they began."""

    used: float
    waited: float  # able to run, while every processor was at other work

    def since(self, before):
        return Times(self.used - before.used, self.waited - before.waited)


def times_of(processes):
    """Sum up the times of all threads of some processes."""
    used = waited = 0
    for process in processes:
        for thread in _threads(process):
            with suppress(OSError):  # it has ended meanwhile
                for_one = (thread / "schedstat").read_text().split()
                used, waited = used + int(for_one[0]), waited + int(for_one[1])
    return Times(used / 1e6, waited / 1e6)


def this_and_renderers():
    """This process, which is the server, and those of the browser that draw pages."""
    return [os.getpid(), *(each for each in _below(os.getpid()) if b"--type=renderer" in _command(each))]


def _below(process):
    for thread in _threads(process):
        with suppress(OSError):
            for child in (thread / "children").read_text().split():
                yield int(child)
                yield from _below(int(child))


def _threads(process):
    return (_PROC / str(process) / "task").iterdir()


def _command(process):
    return (_PROC / str(process) / "cmdline").read_bytes()
