"""Connections to one server, and finding it.

All keys of a namespace are in one slot, so even in a cluster there is one server to talk to.  When a cluster names another
node, or the server has become a replica, the pool drops its connections and looks for the server again.
"""

from __future__ import annotations

import contextlib
import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from onward.backends.pool import Pool
from onward.backends.redis import errors, server
from onward.backends.redis.driver import NoBackoff, Retry, redis
from onward.backends.redis.scripts import Script
from onward.backends.redis.server import Server
from onward.backends.redis.url import Address, Options
from onward.base.clock import time_left
from onward.base.logs import get_logger
from onward.errors import BackendMisconfigured, BackendUnavailable

__all__ = ["Connection", "Connections"]

_CONNECT = 5.0

_logger = get_logger("onward.backend.redis")


class Connection:
    """One connection: each command is answered before the next is sent."""

    def __init__(self, driver: Any, silence: float) -> None:
        """Wrap a driver's connection.  ``silence``: how many seconds an answer may take."""
        self._driver = driver
        self._silence = self._timeout = silence
        self._poll = select.poll()
        self.generation = 0
        self.broken = True  # until it has connected

    def connect(self) -> None:
        self._timeout = self._driver.socket_timeout = time_left(self._silence)
        self._driver.socket_connect_timeout = time_left(min(_CONNECT, self._silence))
        self._driver.connect()
        self._poll.register(self.fileno(), select.POLLIN)
        self.broken = False

    def ask(self, *command: Any) -> Any:
        self.broken = True
        if (timeout := time_left(self._silence)) != self._timeout:
            self._timeout = timeout
            self._driver._sock.settimeout(timeout)  # noqa: SLF001  the driver has no other way to it
        self._driver.send_command(*command)
        try:
            answer = self._driver.read_response()
        except redis.ResponseError:  # the server has answered
            self.broken = False
            raise
        self.broken = False
        return answer

    def run(self, script: Script, key: str, *arguments: bytes) -> Any:
        """Call a script by its name, or by its text where the server does not know it."""
        try:
            return self.ask("EVALSHA", script.digest, 1, key, *arguments)
        except redis.exceptions.NoScriptError:
            return self.ask("EVAL", script.text, 1, key, *arguments)

    @property
    def is_quiet(self) -> bool:
        """Whether an idle connection is still open: a server that sends without a question is about to close it."""
        return self._driver._sock is not None and not self._poll.poll(0)  # noqa: SLF001  the driver has no other way to it

    def fileno(self) -> int:
        sock = self._driver._sock  # noqa: SLF001  the driver has no other way to it
        if sock is None:
            raise OSError("not connected")
        number: int = sock.fileno()
        if number < 0:
            raise OSError("closed")
        return number

    def close(self) -> None:
        self.broken = True
        with contextlib.suppress(redis.RedisError, OSError):
            self._driver.disconnect()


class Connections(Pool[Connection]):
    """The connections of one process to one server."""

    _slow = "a script that takes too long"

    def __init__(self, address: Address, options: Options) -> None:
        super().__init__(options.pool_size)
        self.place = address.place
        self.server = Server()
        self._address = address
        self._options = options
        self._node: tuple[str, int] | None = None  # the node that a cluster named
        self._checked = False
        self._generation = 0  # counts the changes of server: connections of an older one are dropped
        self._resting: list[Connection] = []  # idle ones, for threads that wait

    @contextmanager
    def beside(self) -> Iterator[Connection]:
        """Lend a connection to a thread that waits, beside the pool, whose connections are for threads that work."""
        with self._changed:
            connection = self._resting.pop() if self._resting else None
        if connection is not None and not self._is_quiet(connection):
            self.discard(connection)
            connection = None
        connection = connection or self.connect()
        try:
            yield connection
        finally:
            with self._changed:
                rests = self._open.get(id(connection)) is connection and not connection.broken and not self._closed
                if rests:
                    self._resting.append(connection)
            if not rests:
                self.discard(connection)

    def follow(self, error: Exception) -> bool:
        """Choose another server if this error names one, or says that this is a replica.  Returns whether it did."""
        node = errors.moved_to(error)
        if node is not None and self._address.kind == "cluster":
            self._go_to(node if node[0] else (self._address.hosts[0][0], node[1]))
            return True
        if errors.is_read_only(error) and self._address.kind in ("sentinel", "cluster"):
            self._go_to(None)
            return True
        return False

    def close(self) -> None:
        super().close()
        with self._changed:
            resting, self._resting = self._resting, []
        for connection in resting:
            self.discard(connection)

    # Called by the pool

    def _opened(self) -> Connection:
        generation = self._generation
        connection = self._found()
        connection.generation = generation
        return connection

    def _close_connection(self, connection: Connection) -> None:
        connection.close()

    def _drop_inherited(self) -> None:
        self._resting = []
        super()._drop_inherited()

    def _socket(self, connection: Connection) -> int | None:
        try:
            return connection.fileno()
        except OSError:  # it is closed
            return None

    def _is_quiet(self, connection: Connection) -> bool:
        return connection.generation == self._generation and connection.is_quiet

    def _is_reusable(self, connection: Connection) -> bool:
        return not connection.broken

    # Finding the server

    def _go_to(self, node: tuple[str, int] | None) -> None:
        with self._changed:
            self._node = node
            self._generation += 1

    def _found(self) -> Connection:
        """Connect to the first address that works; raises the last failure if none does."""
        failure: Exception | None = None
        for host, port in self._addresses():
            connection = Connection(self._driver(host, port), self._options.timeout)
            try:
                connection.connect()
                self._check(connection)
            except (redis.RedisError, OSError, BackendUnavailable) as error:
                connection.close()
                failure = error
            except BaseException:
                connection.close()
                raise
            else:
                return connection
        if self._node is not None:
            self._go_to(None)  # the node is gone: ask another one for its successor
        assert failure is not None
        raise errors.unreachable(failure, self.place) from failure

    def _addresses(self) -> Iterator[tuple[str, int]]:
        if self._address.kind == "unix":
            yield "", 0
        elif self._address.kind == "sentinel":
            yield self._master()
        elif self._node is not None:
            yield self._node
        else:
            yield from self._address.hosts

    def _master(self) -> tuple[str, int]:
        failure: Exception | None = None
        for host, port in self._address.hosts:
            login = (self._options.sentinel_username, self._options.sentinel_password)
            sentinel = Connection(self._driver(host, port, login=login, db=0), self._options.timeout)
            try:
                sentinel.connect()
                found = sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._address.master)
            except (redis.RedisError, OSError) as error:
                failure = error
            else:
                if found:
                    return found[0].decode(), int(found[1])
                failure = BackendMisconfigured(
                    f"{self.place}: no sentinel knows a master called {self._address.master!r}"
                )
            finally:
                sentinel.close()
        assert failure is not None
        raise failure

    def _driver(
        self, host: str, port: int, *, login: tuple[str | None, str | None] | None = None, db: int | None = None
    ) -> Any:
        username, password = (self._address.username, self._address.password) if login is None else login
        options: dict[str, Any] = {
            "db": self._address.db if db is None else db,
            "username": username,
            "password": password,
            "retry": Retry(NoBackoff(), 0),  # the caller decides whether to ask again
            "protocol": 2,  # newer drivers would begin with a command that proxies may not know
            "client_name": "onward",
        }
        kind: Any = redis.Connection
        if self._address.kind == "unix":
            kind = redis.UnixDomainSocketConnection
            options["path"] = self._address.path
        else:
            options |= {"host": host, "port": port, "socket_keepalive": True}
        if self._address.tls:
            kind = redis.SSLConnection
            options |= dict(self._options.tls)
        return kind(**options)

    def _check(self, connection: Connection) -> None:
        """Raise for a server that would lose jobs, when a process connects rather than later."""
        found = server.inspect(connection)
        if found.loading:
            raise BackendUnavailable(f"{self.place}: the server is still reading its file: try again")
        if found.role != "master":
            refusal = BackendUnavailable if self._checked or self._address.kind != "server" else BackendMisconfigured
            raise refusal(f"{self.place}: this is a replica, which cannot be written: name the primary server")
        if found.compatible < server.OLDEST:
            raise BackendMisconfigured(
                f"{self.place}: {found.product} {found.version} is too old, 6.2 or newer is needed"
            )
        wrong = server.dangers(found)
        if wrong and not self._options.allow_lossy:
            said = f"{self.place}: " + "; ".join(wrong)
            if not self._checked:
                raise BackendMisconfigured(f"{said}; or add ?allow_lossy=true, if jobs may be lost")
            _logger.error("%s", said)  # the setting was right at the start: running workers go on
        elif not self._checked and not found.durable and not self._options.allow_lossy:
            _logger.info(
                "%s: appendfsync is %s: a crash of the server loses nothing, a power cut the last second or two",
                self.place,
                found.fsync,
            )
        self.server = found
        self._checked = True
