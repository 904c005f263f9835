"""A session is a connection, and the jobs that it has reserved.

    reserve ──▶ not Onward's: buried where it is         crashed before, and again: put back with a pause
            ──▶ expired: deleted                          crashed too often: handed out as spent, to be dead-lettered
            ──▶ dead, not kicked: buried                  otherwise: a lease

The server puts every reserved job back at once when the connection ends, and a job that is not touched for its time to run.
A reservation that ended in neither a release nor a burial was a crash.  The server counts reservations until it is
restarted; the session writes those counts into the header whenever it puts a job back.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, NamedTuple

import msgspec

from onward.backend import Claim, Lease, Sealed
from onward.backends.beanstalk.body import BodyHeader, NotOurs, decode, encode
from onward.backends.beanstalk.connection import Connection
from onward.backends.beanstalk.tubes import Tubes, urgency
from onward.backends.broker.header import lease_of, revived
from onward.base.clock import SECOND, Clock
from onward.base.failure import Failure
from onward.base.logs import get_logger
from onward.errors import BackendError
from onward.job.settlement import crash_pause

__all__ = ["BrokerSession", "Reserved"]

logger = get_logger("onward.beanstalk")

_MOST = 100  # jobs to ask for at once
Found = tuple[int, bytes]  # a job's number, and its body

_A_MOMENT = 60  # seconds in which a dead copy is buried; after a kill the next session that reserves it does that


class Reserved(NamedTuple):
    """A job that this session has reserved."""

    number: int  # the server's
    queue: str
    header: BodyHeader  # with what the server has counted
    data: bytes
    claimed_at: int

    @property
    def token(self) -> int:
        return self.header.delivery

    @property
    def key(self) -> tuple[str, int]:
        return (self.header.id, self.token)

    def lease(self, owner: str) -> Lease:
        return lease_of(
            self.header,
            Sealed(self.header.id, self.queue, self.data),
            owner,
            expires_at=self.claimed_at + self.header.ttr * SECOND,
            claimed_at=self.claimed_at,
            receipt=self.number,
        )


class BrokerSession:
    """The jobs that one owner holds.  Every method is called under the connection's lock."""

    def __init__(self, connection: Connection, tubes: Tubes, clock: Clock, limit: int) -> None:
        self.connection = connection
        self._tubes = tubes
        self._clock = clock
        self._limit = limit
        self.held: dict[tuple[str, int], Reserved] = {}
        self._plenty: dict[str, int] = {}  # by queue, how many to ask for at once

    @property
    def lock(self) -> AbstractContextManager[Any]:
        return self.connection.lock

    def has_ended(self) -> bool:
        """Say whether the server has given back what was held, because the connection broke."""
        if not self.connection.stale():
            return False
        self.close()
        return True

    def close(self) -> None:
        self.connection.close()

    # Taking

    def claim(self, claim: Claim, owner: str) -> list[Lease]:
        """Claim queue by queue.  A suspect ends the claim: it comes alone, or waits for the next."""
        leases: list[Lease] = []
        for queue in dict.fromkeys(claim.queues):
            most = min(claim.limit, len(leases) + claim.at_most.get(queue, claim.limit))
            while len(leases) < most:
                found = self._reserve(queue, most - len(leases))
                if not found:
                    break
                if not self._take(queue, found, owner, leases):
                    return leases
        return leases

    def _reserve(self, queue: str, limit: int) -> list[Found]:
        """Reserve the next jobs of a queue.  A queue that had few is not asked for many."""
        tube, wanted = self._tubes.of(queue), min(limit, self._plenty.get(queue, 1))
        found, is_late = self.connection.reserve(tube, wanted)
        if is_late:  # one of ours was not renewed in time
            self.renew()
            if not found:
                found, _ = self.connection.reserve(tube, wanted)
        self._plenty[queue] = min(2 * wanted, _MOST) if len(found) == wanted else max(1, len(found))
        return found

    def _take(self, queue: str, found: Sequence[Found], owner: str, leases: list[Lease]) -> bool:
        """Add the leases of those that may run, in their order; False once a suspect ended the claim."""
        left = deque(found)
        try:
            for stats in self.connection.counters([number for number, _ in found]):
                number, body = left[0]
                reserved = None if stats is None else self._opened(queue, number, body, stats)
                if reserved is not None and reserved.header.crashes and leases:
                    break
                left.popleft()
                if reserved is not None and reserved.key in self.held:
                    # Two bodies have one id and one token, so one is forged.  A settlement of one must not reach the other:
                    # put back, it comes with another token.
                    self.put_back(reserved, reserved.header, 0)
                elif reserved is not None:
                    self.held[reserved.key] = reserved
                    leases.append(reserved.lease(owner))
                    if reserved.header.crashes:
                        break
            else:
                return True
        except BackendError:
            with suppress(BackendError):  # if the connection has ended they went back by themselves
                self._give_back(left)
            raise
        self._give_back(left)
        return False

    def _give_back(self, found: Iterable[Found]) -> None:
        """Release what was reserved after a suspect, or before an error: it has not started."""
        for number, body in found:
            try:
                priority = urgency(decode(body)[0].priority)
            except NotOurs:
                priority = 0
            self.connection.release(number, priority)

    def _opened(self, queue: str, number: int, body: bytes, stats: Mapping[bytes, bytes]) -> Reserved | None:
        try:
            header, data = decode(body)
        except NotOurs as error:
            logger.error("job %d of queue %s is buried: Onward did not write it (%s)", number, queue, error)  # noqa: TRY400
            self.connection.bury(number, 0)
            return None
        return self._counted(Reserved(number, queue, header, data, self._clock.micros()), stats)

    def _counted(self, reserved: Reserved, stats: Mapping[bytes, bytes]) -> Reserved | None:
        """Return it with the counters as they are now; None if it may not run."""
        number, header = reserved.number, reserved.header
        reserves, releases, buries = (int(stats[word]) for word in (b"reserves", b"releases", b"buries"))
        if header.dead:
            if not int(stats[b"kicks"]):
                self.connection.bury(number, urgency(header.priority))
                return None
            # A person has kicked it: it is replayed.
            header = msgspec.structs.replace(revived(header), reason=None, ended_at=None, failure=None)
        elif header.expires_at is not None and header.expires_at <= reserved.claimed_at:
            self.connection.delete(number)
            return None
        crashes = max(0, reserves - 1 - releases - buries)
        header = msgspec.structs.replace(
            header,
            crashes=header.crashes + crashes,
            interruptions=header.interruptions + releases,
            delivery=header.delivery + reserves,
        )
        reserved = reserved._replace(header=header)
        if crashes and header.crashes >= header.max_crashes:
            return reserved._replace(header=msgspec.structs.replace(header, spent=header.crashed_too_often))
        pause = crash_pause(header.crashes) if crashes else 0
        if pause:
            self.put_back(reserved, header, pause)
            return None
        return reserved

    def renew(self) -> list[tuple[str, int]]:
        """Touch all that is held.  Returns what is not ours any more."""
        held = list(self.held.items())
        touched = self.connection.touch_all([reserved.number for _, reserved in held])
        lost = [key for (key, _), is_ours in zip(held, touched, strict=True) if not is_ours]
        for key in lost:
            del self.held[key]
        return lost

    # Ending

    def put_back(self, reserved: Reserved, header: BodyHeader, delay: int) -> bool:
        """Put a copy with other counters, then remove the original: a process that dies in between leaves the job twice."""
        if not self.connection.touch(reserved.number):
            return False
        self._put(reserved, header, math.ceil(delay / SECOND))
        self.connection.delete(reserved.number)
        return True

    def bury(self, reserved: Reserved, header: BodyHeader, reason: str, failure: Failure | None) -> bool:
        """Bury a copy of a dead job with the reason, then remove the original.  Any session that reserves it buries it."""
        if not self.connection.touch(reserved.number):
            return False
        dead = msgspec.structs.replace(header, reason=reason, failure=failure, ended_at=self._clock.micros())
        copy = self._put(reserved, dead, _A_MOMENT)
        if self.connection.reserve_one(copy):
            self.connection.bury(copy, urgency(header.priority))
        self.connection.delete(reserved.number)
        return True

    def _put(self, reserved: Reserved, header: BodyHeader, delay: int) -> int:
        body = encode(header, reserved.data, self._limit)
        tube, priority = self._tubes.of(reserved.queue), urgency(header.priority)
        return self.connection.put(tube, body, priority=priority, delay=delay, ttr=header.ttr)
