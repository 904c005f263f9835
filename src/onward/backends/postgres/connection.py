"""Connections to one database: opening them, and refusing a server that would lose jobs."""

from __future__ import annotations

import contextlib
import select
from collections.abc import Callable, Generator
from functools import cached_property
from typing import Any

from onward.backends.pool import Pool
from onward.backends.postgres import errors
from onward.backends.postgres.driver import psycopg
from onward.backends.postgres.url import Options
from onward.backends.postgres.wire import Wire
from onward.base.clock import deadline_is_over, milliseconds_left, until
from onward.base.logs import get_logger
from onward.errors import BackendMisconfigured, BackendUnavailable

__all__ = ["Connection", "Connections"]


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """The driver's connection, with a `Wire` past its cursors.  It keeps Onward's time limit."""

    @cached_property
    def wire(self) -> Wire:
        return Wire(self)

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        steps = gen if milliseconds_left() is None else _in_time(gen)
        return super().wait(steps, *args, **options)

    @classmethod
    def _connect_gen(cls, *args: Any, **options: Any) -> Any:
        # The driver's own time-out is at least two seconds, and whole ones.
        return _in_time(super()._connect_gen(*args, **options))


def _in_time(steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Run the driver's steps, and raise at the time limit.  The driver resumes them at least ten times a second."""
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if deadline_is_over():
                steps.close()
                raise psycopg.OperationalError("the server did not answer in time")
            wanted = steps.send(ready)
    except StopIteration as end:
        return end.value


# A server that is gone is noticed within seconds, not after the kernel's quarter of an hour.
_DEFAULTS = {
    "application_name": "onward",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
# Every statement is written for one plan, along an index that has its order: so the server makes the plan once, whatever the
# tables hold at that moment, and never compiles it, which takes longer than running it.
_SESSION = {
    "default_transaction_isolation": r"read\ committed",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "jit": "off",
    "lock_timeout": "30s",
    "idle_in_transaction_session_timeout": "20s",
}
_OLDEST = 13_00_00

_logger = get_logger("onward.backend.postgres")


class Connections(Pool[Connection]):
    """The connections of one process to one database."""

    def __init__(self, url: str, options: Options, *, prepare: Callable[[Connection, str], None]) -> None:
        super().__init__(options.pool_size)
        self._info = _settings(url)
        self.place = _place(self._info)
        self._relaxed = options.durability == "relaxed"
        self.durable = not self._relaxed  # False, too, once a server without durable commits was seen
        self.pooled = options.pooler == "transaction"
        self._prepare = prepare
        self._prepared = False
        self._told_to_wait = False  # whether sessions set synchronous_commit, because the database's own setting is off

    def plain(self) -> Connection:
        """Open a connection as the driver makes it, for a handler; the caller discards it."""
        self._refuse_if_closed()
        info = dict(self._info)
        if not self.pooled and (durability := self._durability()):
            info["options"] = _options(durability, info)
        connection = self._dialled(info, prepare_threshold=None)
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        self._beside(connection)
        return connection

    def stop_preparing(self) -> None:
        """Stop using prepared statements: a pooler before the server gives every transaction another session."""
        with self._changed:
            if self.pooled:
                return
            self.pooled = True
        _logger.warning(
            "%s: a pooler gives out a session for one transaction only: going on without prepared statements and "
            "without LISTEN; write ?pooler=transaction to start that way",
            self.place,
        )
        self.discard_idle()

    # Called by the pool

    def _opened(self) -> Connection:
        connection = self._connected()
        try:
            self._check(connection)
            if not self._prepared:
                with until(None):  # a migration has no time limit: half of one is of no use
                    self._prepare(connection, self.place)
                self._prepared = True
        except BaseException as error:
            connection.close()
            if isinstance(error, psycopg.OperationalError) and not error.sqlstate:
                raise errors.unreachable(error, self.place) from error
            raise
        return connection

    def _close_connection(self, connection: Connection) -> None:
        with contextlib.suppress(psycopg.Error):
            connection.close()

    def _socket(self, connection: Connection) -> int | None:
        try:
            return connection.fileno()
        except psycopg.Error:  # it is closed
            return None

    def _is_quiet(self, connection: Connection) -> bool:
        return _is_quiet(connection)

    def _is_reusable(self, connection: Connection) -> bool:
        """Return whether a connection is clean: no transaction, no unread answer, no stray prepared statement."""
        state = connection.pgconn
        return (
            state.transaction_status == psycopg.pq.TransactionStatus.IDLE
            and state.pipeline_status == psycopg.pq.PipelineStatus.OFF
            and not (self.pooled and connection.prepare_threshold is not None)
        )

    # Opening

    def _connected(self) -> Connection:
        info = dict(self._info)
        if not self.pooled:
            info["options"] = _options({**_SESSION, **self._durability()}, info)
        return self._dialled(
            info,
            autocommit=True,
            prepare_threshold=None if self.pooled else 0,
            cursor_factory=psycopg.RawCursor,
        )

    def _dialled(self, info: dict[str, str], **options: Any) -> Connection:
        try:
            return Connection.connect(psycopg.conninfo.make_conninfo(**info), **options)
        except psycopg.OperationalError as error:
            if not self.pooled and errors.refuses_settings(error):
                self.stop_preparing()
                return self._dialled(self._info, **{**options, "prepare_threshold": None})
            raise errors.unreachable(error, self.place) from error

    def _durability(self) -> dict[str, str]:
        """Return the settings of a session that make commits durable: the database's own may differ."""
        if self._relaxed:
            return {"synchronous_commit": "off"}
        return {"synchronous_commit": "on"} if self._told_to_wait else {}

    def _check(self, connection: Connection) -> None:
        """Raise for a server that would lose jobs, when a process connects rather than later."""
        version = connection.info.server_version
        if version < _OLDEST:
            raise BackendMisconfigured(f"{self.place}: PostgreSQL {version // 10000} is too old, 13 or newer is needed")
        found = connection.execute(
            "SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only') = 'on', "
            "current_setting('synchronous_commit'), current_setting('fsync')"
        ).fetchone()
        assert found is not None
        standby, read_only, synchronous, fsync = found
        refusal = BackendUnavailable if self._prepared else BackendMisconfigured  # a standby may be about to take over
        if standby:
            raise refusal(f"{self.place}: this is a standby, which cannot be written: name the primary server")
        if read_only:
            raise refusal(
                f"{self.place}: default_transaction_read_only is on, so nothing can be written: turn it off for this "
                f"database and role, or name another server"
            )
        if synchronous == "off" and not self._relaxed and not self.pooled:
            # It may be off for the whole database; but a job that was accepted is never lost.
            connection.execute("SET synchronous_commit = on")
            synchronous, self._told_to_wait = "on", True
        self.durable = synchronous != "off" and fsync == "on"


def _options(settings: dict[str, str], info: dict[str, str]) -> str:
    told = " ".join(f"-c {name}={value}" for name, value in settings.items())
    return f"{told} {info.get('options', '')}".strip()


def _is_quiet(connection: Connection) -> bool:
    """Return whether an idle connection is still open: a server that sends without a question is about to close it."""
    try:
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        if not poll.poll(0):
            return True
        said: list[object] = []
        connection.add_notice_handler(said.append)
        connection.pgconn.consume_input()
        connection.pgconn.is_busy()  # reads the bytes; those of the encryption layer alone are no message
        connection.remove_notice_handler(said.append)
        return not said and not poll.poll(0)
    except (OSError, psycopg.Error):
        return False


def _settings(url: str) -> dict[str, str]:
    try:
        given = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise BackendMisconfigured(f"this PostgreSQL URL cannot be read: {str(error).strip()}") from None
    settings = {**_DEFAULTS, **{name: str(value) for name, value in given.items()}, "client_encoding": "UTF8"}
    if "," in settings.get("host", ""):
        settings.setdefault("target_session_attrs", "read-write")
    return settings


def _place(info: dict[str, str]) -> str:
    """Return the address of the database, without the password."""
    host, port = info.get("host", "localhost"), info.get("port")
    return f"postgresql://{host}{f':{port}' if port else ''}/{info.get('dbname', '')}"
