"""Connections to one database: opening them, and refusing a server that would lose jobs."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

from onward.backends.mysql import errors, queries
from onward.backends.mysql.driver import CLIENT, SERVER_STATUS, pymysql
from onward.backends.mysql.url import Address, Options
from onward.backends.pool import Pool
from onward.backends.sql.rows import Row
from onward.base.clock import time_left, until
from onward.errors import BackendMisconfigured, BackendUnavailable, TransactionError

__all__ = ["Connection", "Connections", "Result", "ServerSettings"]

_CONNECTING, _SILENCE = 10, 60  # seconds
# A server that is gone is noticed within seconds, not after the kernel's quarter of an hour.
_TCP = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 20_000}
# The settings of Onward's sessions, whatever the server's defaults are: errors instead of values that are silently changed.
_SESSION = (
    b"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;"
    b"SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO',"
    b" innodb_lock_wait_timeout = %d, lock_wait_timeout = %d, wait_timeout = 28800, time_zone = '+00:00', autocommit = 1"
    # Only MariaDB has this setting: a worker that is stopped in the middle of a turn keeps its row locked no longer than
    # this.
    b" /*M!100300 , idle_transaction_timeout = 20 */"
)
_SLACK = 1024  # bytes of a packet that the protocol needs
_OLDEST = {"MariaDB": (10, 6), "MySQL": (8, 0)}


class Result(NamedTuple):
    """The server's answer to one statement."""

    rows: list[Row]
    matched: int


class Connection:
    """A driver's connection that takes several statements at once, and knows whether all answers were read."""

    __slots__ = ("_raw", "_silence", "in_step", "number", "place", "room")

    def __init__(self, raw: Any, place: str, silence: float | None = None) -> None:
        """Wrap a driver's connection.  ``silence``: how many seconds an answer may take; None: no limit."""
        self._raw = raw
        self._silence = silence
        self.place = place
        self.number: int = raw.thread_id()
        self.room = 1 << 20
        self.in_step = True

    @property
    def raw(self) -> Any:
        """The driver's own connection."""
        return self._raw

    def send(self, sql: bytes) -> list[Result]:
        """Send statements, and read every answer.  If one fails, the server does not execute those after it."""
        self.in_step = False
        if self._silence is not None:
            self._raw._read_timeout = self._raw._write_timeout = time_left(self._silence)  # noqa: SLF001
        raw = self._raw
        try:
            raw.query(sql)
            results = [_read(raw)]
            while raw._result.has_next:  # noqa: SLF001 - past the driver's cursors, which cost as much as the rest
                raw.next_result()
                results.append(_read(raw))
        except pymysql.err.MySQLError as error:
            self.in_step = errors.is_from_server(error) and self._raw.open
            raise
        self.in_step = True
        return results

    @property
    def is_in_transaction(self) -> bool:
        return bool(self._raw.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS)

    @property
    def is_quiet(self) -> bool:
        """Whether the server has sent nothing without a question: else it is about to close the connection."""
        if not self._raw.open:
            return False
        poll = select.poll()
        poll.register(self._raw._sock.fileno(), select.POLLIN)  # noqa: SLF001 - ours may be wrapped by now
        return not poll.poll(0)

    def close(self) -> None:
        with contextlib.suppress(*errors.DRIVERS):
            if self._raw.open:
                pymysql.connections.Connection.close(self._raw)


def _read(raw: Any) -> Result:
    """Return the answer that the driver has read."""
    result = raw._result  # noqa: SLF001 - see above
    return Result([] if result.rows is None else list(result.rows), result.affected_rows)


class _HandlerConnection(pymysql.connections.Connection):  # type: ignore[misc]
    """A connection whose transaction the handler cannot end."""

    def commit(self) -> NoReturn:
        _refuse("commit")

    def rollback(self) -> NoReturn:
        _refuse("roll back")

    def begin(self) -> NoReturn:
        _refuse("begin")

    def close(self) -> NoReturn:
        _refuse("close")


def _refuse(verb: str) -> NoReturn:
    raise TransactionError(
        f"a handler does not {verb} its job's transaction: leaving the block commits it, an exception rolls it back"
    )


class ServerSettings(NamedTuple):
    """The settings of a server."""

    version: str
    durable: bool
    packet: int

    @classmethod
    def known_by(cls, variables: Mapping[str, str]) -> ServerSettings:
        flushes = variables.get("innodb_flush_log_at_trx_commit") == "1"
        # With a binary log that is not on the disk, recovery undoes what it lacks, though InnoDB had it.
        logs = not _on(variables, "log_bin") or variables.get("sync_binlog") == "1"
        return cls(variables.get("version", ""), flushes and logs, int(variables.get("max_allowed_packet", 1 << 20)))


class Connections(Pool[Connection]):
    """The connections of one process to one database."""

    def __init__(self, address: Address, options: Options, *, prepare: Callable[[Connection], None]) -> None:
        super().__init__(options.pool_size)
        self.place = address.place
        self.durable = True  # False once a server without durable commits was seen
        self._arguments = address.arguments
        self._lock_timeout = options.lock_timeout
        self._one_writer = options.writers == "one"
        self._prepare = prepare
        self._prepared = False

    def _opened(self) -> Connection:
        connection = self._connected(flags=CLIENT.MULTI_STATEMENTS | CLIENT.FOUND_ROWS)
        try:
            connection.send(_SESSION % (self._lock_timeout, self._lock_timeout))
            self._check(connection)
            if not self._prepared:
                with until(None):  # a migration has no time limit: half of one is of no use
                    self._prepare(connection)
                self._prepared = True
        except BaseException as error:
            connection.close()
            if isinstance(error, errors.DRIVERS) and not errors.is_from_server(error):
                raise errors.unreachable(error, self.place) from error
            raise
        return connection

    def for_handler(self) -> Connection:
        """Open a connection as the driver makes it, in a transaction; the caller discards it."""
        self._refuse_if_closed()
        connection = self._connected(read_timeout=None, kind=_HandlerConnection)
        try:
            connection.send(b"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            connection.send(b"SET SESSION autocommit = 0")
            connection.send(b"START TRANSACTION")
            connection.send(b"SAVEPOINT onward")  # a statement that ends the transaction removes it
        except BaseException:
            connection.close()
            raise
        self._beside(connection)
        return connection

    def _connected(
        self, *, read_timeout: int | None = _SILENCE, kind: Any = pymysql.connections.Connection, flags: int = 0
    ) -> Connection:
        # Encryption within a machine is of no use, and reading the certificates would take longer than connecting.
        local = "unix_socket" in self._arguments
        given = {"connect_timeout": _CONNECTING, "read_timeout": read_timeout, "ssl_disabled": local, **self._arguments}
        silence = given["read_timeout"]
        given["connect_timeout"] = time_left(given["connect_timeout"])
        if silence is not None:
            given["read_timeout"] = time_left(silence)
        line: socket.socket | None = None
        try:
            raw = kind(
                **{**given, "write_timeout": given["read_timeout"]},
                charset="utf8mb4",
                collation="utf8mb4_bin",
                autocommit=None,
                client_flag=flags,
                program_name="onward",
                defer_connect=True,
            )
            line = _dialled(given)
            raw._secure = local  # noqa: SLF001 - as the driver sets it for a socket that it opens
            raw.connect(line)
        except (*errors.DRIVERS, RuntimeError) as error:  # the driver lacks a package for this login method
            if line is not None:
                line.close()
            raise errors.unreachable(error, self.place) from error
        return Connection(raw, self.place, silence)

    def _check(self, connection: Connection) -> None:
        """Raise for a server that would lose jobs, when a process connects rather than later."""
        (variables,) = connection.send(queries.load("onward_")["server"].texts[0])
        (cluster,) = connection.send(queries.load("onward_")["cluster"].texts[0])
        said = {name.lower(): value for name, value in (*variables.rows, *cluster.rows)}
        if (refused := unfit(said, one_writer=self._one_writer)) is not None:
            raise BackendMisconfigured(f"{self.place}: {refused}")
        if _is_read_only(said):
            refusal = (
                BackendUnavailable if self._prepared else BackendMisconfigured
            )  # a replica may be about to take over
            raise refusal(f"{self.place}: this server is read-only, a replica perhaps: name the primary server")
        server = ServerSettings.known_by(said)
        self.durable = server.durable
        connection.room = server.packet - _SLACK

    def _close_connection(self, connection: Connection) -> None:
        connection.close()

    def _socket(self, connection: Connection) -> int | None:
        return connection.raw._sock.fileno() if connection.raw.open else None  # noqa: SLF001

    def _is_quiet(self, connection: Connection) -> bool:
        return connection.is_quiet

    def _is_reusable(self, connection: Connection) -> bool:
        return connection.in_step and not connection.is_in_transaction


def unfit(said: Mapping[str, str], *, one_writer: bool) -> str | None:
    """Return why a server with these settings cannot be used; None if it can."""
    version = said.get("version", "")
    name = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    numbers = tuple(int(part) for part in version.split("-", 1)[0].split(".")[:2] if part.isdecimal())
    if numbers < _OLDEST[name]:
        oldest = ".".join(map(str, _OLDEST[name]))
        return f"{name} {version} is too old, {oldest} or newer is needed"
    if _on(said, "wsrep_on") and int(said.get("wsrep_cluster_size", "1") or 1) > 1 and not one_writer:
        return (
            f"a Galera cluster of {said['wsrep_cluster_size']} nodes: two that are written at once lose updates, and two "
            f"workers would get the same job; send all of Onward's connections to one node and add ?writers=one to the URL"
        )
    if _on(said, "log_bin") and said.get("binlog_format", "").upper() == "STATEMENT":
        return "binlog_format=STATEMENT cannot log what READ COMMITTED writes: set it to ROW or MIXED"
    return None


def _is_read_only(said: Mapping[str, str]) -> bool:
    return any(_on(said, name) for name in ("read_only", "super_read_only", "innodb_read_only"))


def _on(said: Mapping[str, str], name: str) -> bool:
    return said.get(name, "OFF").upper() in ("ON", "1")


def _dialled(given: Mapping[str, Any]) -> socket.socket:
    if "unix_socket" not in given:
        line = socket.create_connection((given["host"], given["port"]), given["connect_timeout"])
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _TCP.items():
            if hasattr(socket, name):
                line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return line
    line = socket.socket(socket.AF_UNIX)
    try:
        line.settimeout(given["connect_timeout"])
        line.connect(given["unix_socket"])
    except BaseException:
        line.close()
        raise
    return line
