"""A process that runs members of flows until it is killed: ``python -m tests.backends.redis.flow_worker URL LOG OWNER``.

It appends a line to the log when a job has started, and one before the job is settled.  Where the server was away, it
settles again and takes up what it holds.
"""

import os
import sys
import time
from datetime import timedelta

from onward.backend import Claim, Session, Settlement, Turn
from onward.backends.redis import RedisBackend
from onward.errors import BackendUnavailable
from tests.backends.sqlite.flow_worker import fails


def answered(call):
    while True:
        try:
            return call()
        except BackendUnavailable:
            time.sleep(0.01)


def main(url, log, owner):
    backend = RedisBackend.from_url(url)
    session = Session(owner=owner, lease_for=timedelta(minutes=5), host="here", pid=os.getpid(), version="0")
    answered(lambda: backend.open_session(session))
    written = os.open(log, os.O_APPEND | os.O_WRONLY)
    settlements = []
    while True:
        try:
            turn = Turn(owner=owner, settlements=settlements, claim=Claim(queues=("flows",), limit=2))
            leases = backend.turn(turn).leases
        except BackendUnavailable:
            repeated = Turn(owner=owner, settlements=settlements, claim=None)
            answered(lambda repeated=repeated: backend.turn(repeated))
            leases = answered(lambda: backend.open_session(session, adopts=owner))
        settlements = []
        for lease in leases:
            job_id = lease.envelope.id
            os.write(written, f"start {job_id}\n".encode())
            os.write(written, f"end {job_id}\n".encode())
            ended = Settlement.abandon(lease, "gave up") if fails(job_id) else Settlement.ack(lease)
            settlements.append(ended)
        if not leases:
            answered(lambda: backend.wait(["flows"], 0.5))


if __name__ == "__main__":
    main(*sys.argv[1:])
