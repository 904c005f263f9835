"""A process that runs members of flows until it is killed: ``python -m tests.backends.sqlite.flow_worker FILE LOG OWNER``.

It appends a line to the log when a job has started, and one before the job is settled.
"""

import os
import sys
from datetime import timedelta

from onward.backend import Claim, Session, Settlement, Turn
from onward.backends.sqlite import SqliteBackend

FAILS = "02468ace"  # the last digit of ids


def fails(job_id):
    return job_id[-1] in "05a" and job_id[-2] in FAILS


def main(file, log, owner):
    backend = SqliteBackend.open(file)
    backend.open_session(
        Session(owner=owner, lease_for=timedelta(minutes=5), host="here", pid=os.getpid(), version="0")
    )
    written = os.open(log, os.O_APPEND | os.O_WRONLY)
    settlements = []
    while True:
        leases = backend.turn(
            Turn(owner=owner, settlements=settlements, claim=Claim(queues=("flows",), limit=2))
        ).leases
        settlements = []
        for lease in leases:
            job_id = lease.envelope.id
            os.write(written, f"start {job_id}\n".encode())
            os.write(written, f"end {job_id}\n".encode())
            ended = Settlement.abandon(lease, "gave up") if fails(job_id) else Settlement.ack(lease)
            settlements.append(ended)
        if not leases:
            backend.wait(["flows"], 1.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
