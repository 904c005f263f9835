"""Private beanstalkd servers: a port and a folder of their own, and a clock that a test can move.

The server knows no other time than the machine's.  So it is started under libfaketime, which reads the time from a file; and
because it looks at its clock only when a client speaks to it or a real second is over, moving the clock speaks to it.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import greenstalk

from onward.testing.clock import FakeClock
from tests.servers.crashes import watch
from tests.servers.programs import UNPRIVILEGED, apt_install, lent_user, unavailable

PATIENCE = 30


class BeanstalkdServer:
    """A running server, with a write-ahead log that is flushed at every write."""

    name = "beanstalkd"

    def __init__(self, folder, program, faketime=None):
        self.folder = folder
        self.port = _free_port()
        self._program = program
        self._faketime = faketime
        self._process = None
        watch(self)

    def ended_by_itself(self):
        """Its exit code, if it was not asked to end."""
        return None if self._process is None else self._process.poll()

    def url(self, **options):
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"beanstalk://127.0.0.1:{self.port}" + (f"?{query}" if query else "")

    @property
    def pid(self):
        return self._process.pid

    def connect(self, **options):
        """Past the backend."""
        return greenstalk.Client(("127.0.0.1", self.port), encoding=None, **options)

    def start(self, *options, log=True):
        keeps = ["-b", str(self.folder), "-f", "0"] if log else []
        environment = dict(os.environ)
        if self._faketime is not None:
            environment |= {
                "LD_PRELOAD": str(self._faketime),
                "FAKETIME_TIMESTAMP_FILE": str(self.folder / "time"),
                "FAKETIME_NO_CACHE": "1",
                "TZ": "UTC",
            }
        self._process = subprocess.Popen(
            [self._program, "-l", "127.0.0.1", "-p", str(self.port), *keeps, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            restore_signals=False,  # a file that may not grow is an error to it, not its end
            **lent_user(),
        )
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            assert self._process.poll() is None, "beanstalkd does not start"
            assert time.monotonic() < deadline, "beanstalkd does not answer"
            time.sleep(0.01)

    def stop(self, how=signal.SIGKILL):
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)
            self._process = None

    def restart(self, how=signal.SIGKILL, *options):
        self.stop(how)
        self.start(*options)

    def pause(self):
        self._process.send_signal(signal.SIGSTOP)

    def resume(self):
        self._process.send_signal(signal.SIGCONT)

    def limit_files(self, size):
        """How large a file of the server's may grow."""
        command = ["prlimit", f"--pid={self.pid}", f"--fsize={size}:unlimited"]
        subprocess.run(command, check=True, **lent_user())  # only its own user may

    def empty(self):
        """Remove every job that is not reserved."""
        with self.connect() as client:
            for tube in client.tubes():
                client.use(tube)
                for peek in (client.peek_ready, client.peek_delayed, client.peek_buried):
                    with contextlib.suppress(greenstalk.NotFoundError):
                        while True:
                            client.delete(peek())

    def set_time(self, instant):
        self.time = instant
        text = self.folder / "time.new"
        text.write_text(instant.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3])  # finer it cannot be told
        text.rename(self.folder / "time")

    def _answers(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class ServerClock(FakeClock):
    """A clock that the server goes by, too: as far ahead of its own beginning, for it never goes back there."""

    def __init__(self, server):
        super().__init__()
        self._server = server
        self._speaker = server.connect()
        self._ahead = server.time.replace(microsecond=0) + timedelta(hours=1) - self.now()
        self._tell()

    def advance(self, by):
        super().advance(by)
        self._tell()

    def set(self, instant):
        super().set(instant)
        self._tell()

    def close(self):
        self._speaker.close()

    def _tell(self):
        self._server.set_time(max(self._server.time, self.now() + self._ahead))
        for _ in range(2):  # it acts on the time after it has answered
            self._speaker.using()


@contextlib.contextmanager
def beanstalkd_server(*, fake_time=False, start=True, in_memory=True):
    """Start a server; skip the test, loudly, where there is none (on CI that is a failure)."""
    program = _installed(
        "beanstalkd", lambda: shutil.which("beanstalkd") or shutil.which("beanstalkd", path="/usr/sbin")
    )
    faketime = _installed("libfaketime", _faketime) if fake_time else None
    memory = Path("/dev/shm")  # where a flush costs nothing: the server flushes all the same
    folder = Path(tempfile.mkdtemp(prefix="beanstalkd-", dir=memory if in_memory and memory.is_dir() else None))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, UNPRIVILEGED)
        folder.chmod(0o755)
        server = BeanstalkdServer(folder, program, faketime)
        if fake_time:
            server.set_time(FakeClock().now())
        if start:
            server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _installed(package, found):
    if found() is None:
        apt_install(package)
    if (program := found()) is None:
        unavailable(f"{package}: neither installed nor through apt-get")
    return program


def _faketime():
    return next(Path("/usr/lib").glob("**/libfaketime.so.1"), None)


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
