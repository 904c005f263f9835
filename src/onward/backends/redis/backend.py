"""The contract's verbs on a Redis server: each is one script: one round trip, and the server runs nothing else meanwhile."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

from onward.backend import (
    DURABLE,
    LOSSY,
    Audit,
    Backend,
    Capabilities,
    Check,
    Claim,
    Enqueued,
    Envelope,
    Held,
    Lease,
    Reaped,
    Renewal,
    Session,
    Turn,
    TurnResult,
)
from onward.backends.damage import set_aside_and_repeat
from onward.backends.redis import errors, health, packing, scripts, server, showing, turning
from onward.backends.redis.audit import given
from onward.backends.redis.connection import Connections
from onward.backends.redis.damage import RedisDamage
from onward.backends.redis.driver import redis
from onward.backends.redis.flows import RedisFlows
from onward.backends.redis.inspection import RedisInspection
from onward.backends.redis.limits import NO_WALK, RedisLimits, WalkPlaces, declared
from onward.backends.redis.notes import RedisNotes
from onward.backends.redis.samples import RedisSamples
from onward.backends.redis.schedules import RedisSchedules
from onward.backends.redis.transfer import RedisTransfer
from onward.backends.redis.url import parse_url
from onward.base.clock import SECOND, Clock
from onward.base.names import namespace_name
from onward.errors import BackendError, BackendUnavailable

__all__ = ["RedisBackend"]

_TRIES = 5  # servers tried in turn before a call gives up
_LOOK = 1.0  # seconds between two looks of a waiting thread: a token is lost with a process that dies after it took one
_SLICE = 0.5  # seconds: how soon a waiting thread notices that its backend was closed
_SHORTEST = 0.001
_NO_CLAIM = Claim(queues=(), limit=0)
_WHOLE_TURNS = 20  # that are made by the script for all of them after one that was not usual
_NO_HOLDS = packing.pack([])
_WALK = -2  # the answer of `look` where queues have lanes


class RedisBackend(
    RedisDamage,
    RedisFlows,
    RedisInspection,
    RedisLimits,
    RedisSamples,
    RedisNotes,
    RedisSchedules,
    RedisTransfer,
    Backend,
):
    """Jobs in one server, for every process that can reach it."""

    # A server writes some 64 KiB of an answer at once.  The rest would wait until it has run the turn of another worker.
    claims_at_once = 200

    def __init__(self, connections: Connections, *, clock: Clock | None, prefix: str) -> None:
        super().__init__()
        self._clock = clock
        self._connections = connections
        self._prefix = prefix
        self._places = WalkPlaces()
        self._whole_turns = 0  # so many more turns do not try the script for usual ones

    @classmethod
    def from_url(cls, url: str, *, clock: Clock | None = None, namespace: str = "default") -> RedisBackend:
        """Make a backend for ``redis://host:6379/0``; its first use refuses a server that would lose jobs."""
        address, options = parse_url(url)
        # The braces put all keys into one slot of a cluster: every script may touch every key of the namespace.
        prefix = "{onward}" if namespace == "default" else f"{{onward:{namespace_name(namespace)}}}"
        return cls(Connections(address, options), clock=clock, prefix=prefix)

    @property
    def capabilities(self) -> Capabilities:
        return DURABLE if self._connections.server.durable else LOSSY

    def connect(self) -> None:
        with errors.translated(self._connections.place), self._connections.borrowed():
            pass

    @set_aside_and_repeat
    def enqueue(self, envelopes: Sequence[Envelope], *, retried: bool = False, audit: Audit = ()) -> list[Enqueued]:
        if not envelopes:
            return []
        try:
            plain = None if retried or audit else packing.plain_batch(envelopes)
        except errors.FOREIGN as error:
            raise errors.translation(error, self._connections.place) from error
        if plain is not None:
            first = envelopes[0]
            script = "enqueue_one" if len(envelopes) == 1 else "enqueue_plain"
            if self._run(script, self._now(), first.queue, -first.priority, beside=plain):
                return [Enqueued(envelope.id) for envelope in envelopes]
        told = (None, None, *given(audit)) if audit else ()
        return packing.enqueued(envelopes, self._add(envelopes, *told, retried=retried))

    def _add(self, envelopes: Sequence[Envelope], *guard: Any, retried: bool) -> Any:
        """Store envelopes, for a flow or by a lease (``guard``); return the answer of the script."""
        with errors.translated(self._connections.place):
            message = packing.Message()
            items = [packing.packed_envelope(envelope, message) for envelope in envelopes]
        return self._run("enqueue", self._now(), retried, items, *guard, beside=message.bytes)

    @set_aside_and_repeat
    def open_session(self, session: Session, *, adopts: str | None = None) -> list[Lease] | None:
        about = showing.AboutSession.of(session)
        with errors.translated(self._connections.place):
            packing.checked_owner(session.owner)
        opened = self._run("open_session", self._now(), session.owner, about, adopts, declared(session.limits))
        if opened is None:
            return None
        expires_at, found, sealed, holds, *laned = opened
        lanes = turning.read_lanes(laned[0]) if laned else ()
        leases = turning.leases(found, sealed, holds, owner=session.owner, expires_at=expires_at, laned=lanes)
        if 2 * len(leases) < len(found):
            self.set_aside_if_it_can()
        return leases

    @set_aside_and_repeat
    def turn(self, turn: Turn) -> TurnResult:
        """Settle, promote what is due, claim: one script, one answer per settlement."""
        owner, claim = turn.owner, turn.claim
        with errors.translated(self._connections.place):
            outgoing = turning.Outgoing(turn.settlements, owner)
        claim = claim or _NO_CLAIM
        if outgoing.is_usual and self._may_be_usual():
            made = self._usual_turn(owner, claim, outgoing)
            if made is not None:
                return made
        steered = (claim.begins, self._places.of(claim.queues), random.getrandbits(31))
        given = (
            owner,
            outgoing.others,
            claim.queues,
            claim.limit,
            claim.at_most,
            *outgoing.acked,
            *steered,
            outgoing.retried,
        )
        answer = self._run("turn", self._now(), *given, beside=outgoing.bytes)
        settled = outgoing.settled(answer[1], answer[2])
        if not answer[0]:
            return TurnResult(settled=settled, leases=[], alive=False)
        expires_at, promoted, found, sealed, holds, asked, *rest = answer[3:]
        walked = self._places.learn(claim.queues, rest[1]) if len(rest) > 1 else NO_WALK
        until = showing.instant(expires_at)
        leases = turning.leases(found, sealed, holds, owner=owner, expires_at=until, laned=walked.laned)
        if (rest and rest[0]) or 2 * len(leases) < len(found):
            self.set_aside_if_it_can()
        return TurnResult(
            settled=settled,
            leases=leases,
            promoted=promoted,
            more=walked.more,
            awaits_slots=walked.awaits_slots,
            cancel_requested=packing.held(asked),
        )

    def _may_be_usual(self) -> bool:
        """Whether to try the script for usual turns: it was not in vain a short while ago."""
        if self._whole_turns > 0:
            self._whole_turns -= 1
            return False
        return True

    def _usual_turn(self, owner: str, claim: Claim, outgoing: turning.Outgoing) -> TurnResult | None:
        """Make a turn by the script that can do what nearly all of them need; None if it takes more: nothing was written."""
        given = (owner, claim.queues, claim.limit, claim.at_most, *outgoing.acked)
        answer = self._run("turn_usual", self._now(), *given)
        if answer is None:
            self._whole_turns = _WHOLE_TURNS
            return None
        expires_at, found, sealed, damaged = answer
        leases = turning.leases(found, sealed, _NO_HOLDS, owner=owner, expires_at=showing.instant(expires_at))
        if damaged or 2 * len(leases) < len(found):
            self.set_aside_if_it_can()
        return TurnResult(settled=outgoing.completed(), leases=leases)

    @set_aside_and_repeat
    def _renew(self, owner: str) -> Renewal:
        asked = self._run("extend", self._now(), owner)
        return Renewal(alive=False) if asked is None else Renewal(alive=True, cancel_requested=packing.held(asked))

    @set_aside_and_repeat
    def reap(
        self,
        *,
        owner: str | None = None,
        queue: str | None = None,
        started: Sequence[Held] | None = None,
        cause: str | None = None,
    ) -> list[Reaped]:
        why = cause or ("its session expired" if owner is None else "its process died")
        reaped, has_flows = self._run("reap", self._now(), owner, started, why, queue)
        if has_flows:
            self._sweep_flows()
        return packing.reaped(reaped, why)

    def wait(self, queues: Sequence[str], timeout: float) -> None:
        """Sleep until a token is left for these queues, a job falls due or the timeout is over."""
        try:
            self._wait(list(dict.fromkeys(queues)), time.monotonic() + timeout)
        except BackendError:
            if not self._connections.closed:  # closing a backend ends its waits without an error
                raise

    @set_aside_and_repeat
    def health(self) -> list[Check]:
        with errors.translated(self._connections.place), self._connections.borrowed() as connection:
            found = server.inspect(connection)
        wrong = self._run("wrong_slots")
        if wrong:
            self.set_aside_if_it_can()
        return health.checks(found, self._connections.place, self._run("stranded", self._now()), wrong)

    def empty(self) -> None:
        with errors.translated(self._connections.place), self._connections.borrowed() as connection:
            cursor: Any = b"0"
            while True:
                cursor, keys = connection.ask("SCAN", cursor, "MATCH", f"{self._prefix}*", "COUNT", 1000)
                if keys:
                    connection.ask("UNLINK", *keys)
                if int(cursor) == 0:
                    return

    def close(self) -> None:
        self._connections.close()

    def _now(self) -> int | None:
        """Return the time by the given clock; None stands for the server's own."""
        return None if self._clock is None else self._clock.micros()

    def _run(self, name: str, *arguments: Any, beside: Sequence[bytes] = ()) -> Any:
        """Run a script, on the server that accepts writes."""
        script = scripts.load(name)
        try:
            payload = packing.pack(arguments)
            for _ in range(_TRIES):
                try:
                    with self._connections.borrowed() as connection:
                        return connection.run(script, self._prefix, payload, *beside)
                except redis.RedisError as error:
                    if not self._connections.follow(error):
                        raise
        except errors.FOREIGN as error:
            raise errors.translation(error, self._connections.place) from error
        raise BackendUnavailable(
            f"{self._connections.place}: redirected {_TRIES} times from server to server: try again"
        )

    # Waiting

    @set_aside_and_repeat
    def _wait(self, queues: list[str], deadline: float) -> None:
        tokens = [f"{self._prefix}:wake:{queue}" for queue in queues]
        while not self._connections.closed:
            due = self._run("look", self._now(), queues)
            if due == _WALK:
                due = self._run("look_into_lanes", self._now(), queues, random.getrandbits(31))
            left = deadline - time.monotonic()
            if due == 0 or left <= 0:
                return
            pause = min(left, _LOOK * random.uniform(0.75, 1.25), due / SECOND if due > 0 else left)
            if self._sleep(tokens, time.monotonic() + pause):
                return

    def _sleep(self, tokens: list[str], until: float) -> bool:
        """Wait for a token; returns whether there was one."""
        with errors.translated(self._connections.place), self._connections.beside() as connection:
            while not self._connections.closed and (seconds := until - time.monotonic()) > 0:
                try:
                    token = connection.ask("BLPOP", *tokens, max(_SHORTEST, min(seconds, _SLICE)))
                except redis.RedisError as error:
                    if not self._connections.follow(error):
                        raise
                    return False  # the next look goes to the right server
                if token is not None:
                    return True
        return False
