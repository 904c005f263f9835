"""Two verbs, statement by statement, in any order of their statements.

Each side is the real verb on a connection of its own.  Its thread stops before every statement until it is let on.  One that
waits for a lock, as `pg_blocking_pids` says, goes on by itself after the other side's commit; what its side would have sent
next moves to later places of the order.
"""

import itertools
import threading

from onward.backends.postgres import PostgresBackend
from onward.backends.postgres.transaction import Transaction
from tests.waiting import eventually


class Side:
    """A verb in a thread, that is let on one statement at a time."""

    def __init__(self, sql, passing=("wake_waiters", "wake_apart")):
        """``passing``: statements that are sent with the one before."""
        self.passing = passing
        self._sql = sql
        self._permits = threading.Semaphore(0)
        self._thread = None
        self.pid = 0
        self.sent = []
        self.is_waiting = threading.Event()  # for a permit, or it has ended

    def start(self, act):
        self.sent, self.error = [], None
        self.is_waiting.clear()
        self._thread = threading.Thread(target=self._run, args=[act])
        self._thread.start()
        self.is_waiting.wait(30)

    def _run(self, act):
        try:
            act()
        except BaseException as error:  # noqa: BLE001  raised again below
            self.error = error
        self._thread = None
        self.is_waiting.set()

    def stop_before(self, statement):
        self.is_waiting.set()
        self._permits.acquire()
        self.sent.append(statement)

    @property
    def has_ended(self):
        return self._thread is None

    @property
    def can_go_on(self):
        return self.is_waiting.is_set() and not self.has_ended

    def let_on(self):
        """Send one statement, and wait until it is answered, or waits for a lock."""
        self.is_waiting.clear()
        self._permits.release()
        self.settle_down()

    def settle_down(self):
        eventually(lambda: self.is_waiting.wait(0.001) or self._is_blocked())  # mostly it is answered at once
        if self.error is not None:
            raise self.error

    def _is_blocked(self):
        return self._sql("SELECT pg_blocking_pids(%s)", self.pid) != [([],)]


class SteppedTransaction(Transaction):
    """Sends a statement when it is let on, and reads the answer at once."""

    __slots__ = ("side",)

    def ask(self, name, **parameters):
        if name not in self.side.passing:
            self.side.stop_before(name)
        reply = super().ask(name, **parameters)
        reply.rows()
        return reply


class SteppedBackend(PostgresBackend):
    side = None

    def _transaction(self, connection):
        if self.side is None:
            return super()._transaction(connection)
        self.side.pid = connection.info.backend_pid
        tx = SteppedTransaction(connection.wire, self._sql, self._moved)
        tx.side = self.side
        return tx


def in_order(first, second, order, count):
    """Let both sides on, which have been started: the first one's statements come at these places of ``count``."""
    places = [first if place in order else second for place in range(count)]
    for side in itertools.chain(places, itertools.cycle((first, second))):
        if first.has_ended and second.has_ended:
            return
        if side.can_go_on:
            side.let_on()
            (second if side is first else first).settle_down()  # a commit may have let it on
