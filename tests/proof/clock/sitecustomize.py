"""Sets the wall clock of a Python process ahead or back, while it runs, by a file of `tests.proof.faults.WallClock`.

Python imports it by itself where this folder is in PYTHONPATH.  Clocks that only count seconds stay true, as they do when
somebody sets the clock of a machine.
"""

import mmap
import os
import struct
import time

if "PROOF_CLOCK" in os.environ:
    with open(os.environ["PROOF_CLOCK"], "rb") as file:  # noqa: PTH123  at the start of every interpreter
        _seconds = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)
    _read, _time, _time_ns = struct.Struct("<q").unpack_from, time.time, time.time_ns
    time.time = lambda: _time() + _read(_seconds)[0]
    time.time_ns = lambda: _time_ns() + _read(_seconds)[0] * 1_000_000_000
