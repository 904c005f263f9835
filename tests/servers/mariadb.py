"""Private MariaDB servers: a folder of their own, a socket instead of a port, gone with the test run."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pymysql

from onward.backends.mysql import MySQLBackend
from tests.servers.connecting import connected
from tests.servers.crashes import watch
from tests.servers.deadlocks import none_counted
from tests.servers.programs import UNPRIVILEGED, apt_install, lent_user, unavailable

_SHUTDOWN = 20  # seconds
PATIENCE = 60
TABLES = (
    *("jobs", "finished", "attempts", "sessions", "queues", "holds", "notes", "schedules", "limits", "gates", "series"),
    "audit",
    *("flows", "nodes", "additions", "members"),
)
# Durable, as the server is by default; small, because there may be several.
_SETTINGS = {
    "innodb-flush-log-at-trx-commit": 1,
    "innodb-use-native-aio": 0,
    "innodb-buffer-pool-size": "256M",
    "innodb-log-file-size": "96M",
    "max-connections": 300,
    "skip-networking": 1,
    "performance-schema": 0,
}
# The kernel gives out only so many asynchronous requests, and every server asks for thousands.
_FRUGAL = ("--innodb-use-native-aio=0",)


class MariaDBServer:
    """A running server."""

    name = "mariadbd"
    socket_name = "socket"

    def __init__(self, folder, program):
        self.folder = folder
        self.socket = folder / self.socket_name
        self._program = program
        self._process = None

    def url(self, database="jobs", user="onward", **options):
        query = "&".join(f"{name}={value}" for name, value in {"unix_socket": self.socket, **options}.items())
        return f"mysql://{user}@localhost/{database}?{query}"

    def url_through(self, folder):
        """The URL of a proxy that listens in this folder instead."""
        return self.url(unix_socket=folder / self.socket_name)

    def connect(self, database=None, **options):
        """Past the backend."""
        assert self._answers(), "the server is gone"  # the driver would not close its socket
        given = {"user": "onward", "database": database, "autocommit": True, "charset": "utf8mb4", **options}
        return pymysql.connect(unix_socket=str(self.socket), ssl_disabled=True, **given)

    def start(self, **settings):
        given = {**_SETTINGS, **{name.replace("_", "-"): value for name, value in settings.items()}}
        arguments = [f"--{name}={value}" for name, value in given.items()]
        place = [*_own(self.folder), f"--socket={self.socket}", f"--pid-file={self.folder / 'pid'}"]
        self.socket.unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "--no-defaults", *place, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **lent_user(),
            )
        watch(self)
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.02)

    def ended_by_itself(self):
        """Its exit code, if it has ended without being told to."""
        return None if self._process is None else self._process.poll()

    def stop(self, how=signal.SIGKILL):
        """At once, as if the power had gone, unless another signal is sent: SIGTERM ends its sessions and shuts down."""
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(_SHUTDOWN)
            except (
                subprocess.TimeoutExpired
            ):  # a server that has run thousands of tests may wait for one of its own threads
                self._process.kill()
                self._process.wait(PATIENCE)
            self._process = None

    def restart(self, how=signal.SIGTERM, **settings):
        self.stop(how)
        self.start(**settings)

    def pause(self):
        """Let the server stand still, as if its machine had gone."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self):
        os.killpg(self._process.pid, signal.SIGCONT)

    @property
    def pid(self):
        return self._process.pid

    def deadlocks(self):
        """How many it has counted since it was started."""
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")
            ((_, count),) = cursor.fetchall()
            return int(count)

    def latest_deadlock(self):
        """What the server tells of it: who waited for whom, with which statements."""
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW ENGINE INNODB STATUS")
            ((*_, told),) = cursor.fetchall()
            return told.partition("LATEST DETECTED DEADLOCK")[2].partition("\nTRANSACTIONS\n")[0][:12000]

    def without_deadlock(self):
        """Fail if it counts one in the block."""
        return none_counted(self.deadlocks)

    def end_sessions(self):
        """End all sessions, and wait until they are gone: who was killed may not have ended here yet."""
        others = "SELECT id FROM information_schema.processlist WHERE user = 'onward' AND id <> connection_id()"
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            deadline = time.monotonic() + PATIENCE
            while cursor.execute(others):
                assert time.monotonic() < deadline, "they do not go"
                for (number,) in cursor.fetchall():
                    with contextlib.suppress(pymysql.err.OperationalError):  # it has gone by itself
                        cursor.execute(f"KILL {number}")

    def emptied(self):
        """The URL of a database that has the tables of the default namespace, and nothing in them."""
        if not getattr(self, "has_tables", False):
            connected(MySQLBackend.from_url(self.url())).close()
            self.has_tables = True
        with contextlib.closing(self.connect("jobs", autocommit=False)) as connection, connection.cursor() as cursor:
            for table in TABLES:
                cursor.execute(f"DELETE FROM onward_{table}")
            connection.commit()
        return self.url()

    def _answers(self):
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.socket)) == 0


@contextlib.contextmanager
def mariadb_server(*, in_memory=True, **settings):
    """Start a server; skip the test, loudly, where there is none (on CI that is a failure)."""
    program = mariadb_program()
    if program is None:
        unavailable("MariaDB: neither installed nor through apt-get")
    place = _memory() if in_memory else None
    folder = Path(tempfile.mkdtemp(prefix="maria-", dir=place))  # short: a socket's path may have 107 characters
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, UNPRIVILEGED)
        (folder / "tmp").mkdir(mode=0o777)
        if os.geteuid() == 0:
            shutil.chown(folder / "tmp", UNPRIVILEGED)
        _install(folder)
        server = MariaDBServer(folder, program)
        _give_us_a_user(server)
        server.start(**settings)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _own(folder):
    """Folders that no other server has: one that starts removes what it finds of temporary tables."""
    return f"--datadir={folder / 'data'}", f"--tmpdir={folder / 'tmp'}"


def _install(folder):
    options = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", *_FRUGAL]
    command = ["mariadb-install-db", "--no-defaults", *_own(folder), *options]
    installed = subprocess.run(command, check=False, capture_output=True, text=True, **lent_user())
    assert installed.returncode == 0, f"{installed.stdout}\n{installed.stderr}"


def _give_us_a_user(server):
    statements = (
        b"FLUSH PRIVILEGES;\n"
        b"CREATE USER onward@localhost;\n"
        b"GRANT ALL ON *.* TO onward@localhost WITH GRANT OPTION;\n"
        b"CREATE DATABASE jobs;\n"
    )
    command = [server._program, "--no-defaults", *_own(server.folder), "--bootstrap", *_FRUGAL]
    subprocess.run(command, input=statements, check=True, capture_output=True, **lent_user())


def _memory():
    """Where a flush costs nothing: the server flushes all the same, and what it wrote survives its end."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > 4 << 30 else None


def mariadb_program():
    def found():
        have = shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin")
        return have if shutil.which("mariadb-install-db") else None

    program = found()
    if program is None:
        apt_install("mariadb-server")
        program = found()
    return program
