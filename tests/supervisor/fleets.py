"""`onward worker` as tests see it: real processes in a folder of their own, found through /proc and killed in the end."""

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from onward import State
from onward.backend import Claim, Session, Turn
from tests.waiting import PATIENCE, eventually

SOURCE = Path(__file__).with_name("shop.py")
MARK = "FLEET_OF_A_TEST"
# A supervisor that gives up sooner on a store that does not answer.
IMPATIENT = (
    "from onward.supervisor import store_thread, supervisor; "
    "supervisor._LAST_WORDS = 0.5; store_thread._LONGEST_PAUSE = 0.2"
)


# A worker that claims all that it finds and keeps it, however slow the machine is.
CLAIMS_ALL = "from onward.worker import inflight, pump; inflight._AHEAD = 60; pump._LONGEST_WAIT = 600"


def let_pass(seconds):
    """An outage has a length, and so has silence: that is all that is ever waited for without a fact."""
    time.sleep(seconds)


def seconds_of(action):
    """How long an action takes, on this machine at this moment."""
    begun = time.monotonic()
    action()
    return time.monotonic() - begun


class Shop:
    """The application in its folder: what it is asked to do, and what it has done."""

    def __init__(self, folder, store, /, **settings):
        self.folder = folder
        self.store = store
        self._module = None
        shutil.copy(SOURCE, folder / "shop.py")
        self.set(**settings)

    def set(self, *, patience=None, lease_for=2, **settings):
        """The settings of those who import it from now on; ``patience``: the seconds that a call waits for a lock."""
        text = json.dumps({"url": self.store.url(patience=patience), "lease_for": lease_for, **settings})
        (self.folder / "settings.json").write_text(text)

    def add(self, source):
        """More code, at the end of its module, for those who import it from now on."""
        assert self.module
        with (self.folder / "shop.py").open("a") as file:
            file.write("\n" + source)

    @property
    def module(self):
        """The same module in this process, to enqueue with."""
        if self._module is None:
            spec = importlib.util.spec_from_file_location("shop", self.folder / "shop.py")
            self._module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(self._module)
        return self._module

    def __getattr__(self, name):
        return getattr(self.module, name)

    def close(self):
        if self._module is not None:
            self._module.jobs.close()

    # What has happened

    def diary(self, what=None, **facts):
        """What the handlers have written so far."""
        with suppress(FileNotFoundError):
            whole, _, _ = (self.folder / "diary").read_text().rpartition("\n")  # the last line may still be written
            lines = [json.loads(line) for line in whole.splitlines()]
            wanted = facts if what is None else {"what": what, **facts}
            return [line for line in lines if wanted.items() <= line.items()]
        return []

    def noted(self, what, count=1, **facts):
        """Wait until so many such lines are in the diary, and give the last."""
        seen = eventually(
            lambda: lines if len(lines := self.diary(what, **facts)) >= count else None,
            what=lambda: f"{what} {facts} is not in {self.diary()}",
        )
        return seen[-1]

    def ended(self, *handles):
        """Wait until these jobs have come to their end, and give their records."""
        for handle in handles:
            eventually(lambda handle=handle: handle.record().is_finished, what=lambda handle=handle: handle.record())
        return [handle.record() for handle in handles]

    def sessions(self):
        """Those that are open, with the instants at which they expire."""
        return self.store.sessions()

    def renewed(self, owner, times):
        """Wait until a session was seen with so many different expiries."""
        seen = set()
        eventually(lambda: seen.add(self.sessions()[owner]) or len(seen) > times)

    # What is done to it

    def let(self, *names):
        """Handlers that wait for these may go on."""
        for name in names:
            (self.folder / f"{name}.go").touch()

    def hand_full(self, name="work"):
        """Give such a worker with one slot a job that it holds, and many short ones that it claims meanwhile.

        Returns when it has begun the one and claimed some of the others; they are numbered from 300 to 399.
        """
        self.jobs.pause("default")  # a worker that finds nothing forgets its rate, and claims one at a time
        self.plain.enqueue_many([(n,) for n in range(300)])
        held = self.hold.enqueue(name)
        waiting = self.plain.enqueue_many([(n,) for n in range(300, 400)])
        self.jobs.resume("default")
        self.noted("holding", name=name)
        self.noted("plain", 300)
        # All of it, so that no turn is under way: a process stopped in the middle of one keeps its locks.
        eventually(lambda: self.jobs.counts()[State.EXECUTING] == 101)
        return held, waiting

    def claimed_by_the_dead(self):
        """A job whose lease will expire: its worker has died."""
        handle = self.plain.using(queue="third").enqueue()
        length = timedelta(seconds=self.jobs.settings.lease_for)
        self.jobs.backend.open_session(Session(owner="dead", lease_for=length, host="nowhere", pid=1, version="0"))
        claim = Turn(owner="dead", claim=Claim(queues=("third",), limit=1))
        eventually(lambda: self.jobs.backend.turn(claim).leases)  # a claim may find what it wants locked by another's
        return handle

    def locked(self):
        """Hold a lock on the store: no process claims, settles or renews meanwhile."""
        return self.store.locked()


class Fleet:
    """One `onward worker` with its processes."""

    def __init__(self, shop, *arguments, app="shop:jobs", env=None, before=(), patch=None):
        """``before``: what runs it.  ``patch``: code that changes a constant of its supervisor first."""
        self.shop = shop
        self.mark = uuid.uuid4().hex
        self._log = shop.folder / f"log-{self.mark}"
        main = ["-m", "onward"]
        if patch is not None:
            main = ["-c", f"{patch}; import sys; from onward.cli import main; sys.exit(main())"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*before, sys.executable, *main, "worker", app, *map(str, arguments)],
                cwd=shop.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                    MARK: self.mark,
                    **(env or {}),
                },
            )
        self.pid = self.process.pid

    @property
    def log(self):
        return self._log.read_text(errors="replace")

    def said(self, text, count=1, within=PATIENCE):
        """Wait until its log has this, a regular expression, so many times."""

        def found():
            if len(re.findall(text, self.log)) >= count:
                return True
            # What it said last may have been written since the log was read.
            has_ended = self.process.poll() is not None and not self.members()
            assert not has_ended or len(re.findall(text, self.log)) >= count, complaint()
            return has_ended

        def complaint():
            return f"{text!r} was not said {count} times by {self.process.args}:\n{self.log}"

        eventually(found, within, complaint)

    def members(self, module=""):
        """The pids of its processes that run this module, the oldest first.  Zombies are not among them."""
        found = []
        for folder in Path("/proc").iterdir():
            with suppress(OSError):
                if folder.name.isdecimal() and f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes():
                    command = (folder / "cmdline").read_bytes()
                    if command and module.encode() in command:
                        found.append((int(status(folder.name)[19]), int(folder.name)))
        return [pid for _, pid in sorted(found)]

    def workers(self, count):
        """Its worker processes, as soon as there are so many."""
        return eventually(
            lambda: pids if len(pids := self._named("onward-worker")) == count else None,
            what=lambda: f"{self._named('onward-worker')} are not {count}:\n{self.log}",
        )

    def solos(self):
        """Its processes for single jobs."""
        return self._named("onward-isolated")

    def templates(self):
        """Its processes from which those are forked."""
        return self._named("onward-template")

    def preloaded(self):
        """Its process from which worker processes are forked; those that are being forked have its name for a moment."""

        def settled():
            found = self._named("onward-preload")
            return (found,) if len(found) < 2 else None

        return eventually(settled, what="more than one process is preloaded")[0]

    def _named(self, name):
        found = []
        for pid in self.members("onward.entry."):
            with suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                    found.append(pid)
        return found

    def pause(self):
        """Everything of it stands still, as if the machine were suspended."""
        for pid in (pids := self.members()):
            os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            eventually(lambda pid=pid: status(pid)[0] == "T")
        return pids

    def resume(self):
        for pid in self.members():
            os.kill(pid, signal.SIGCONT)

    def tell(self, number):
        self.process.send_signal(number)

    def wait(self, within=PATIENCE):
        """Its exit code.  When it has ended, nothing of it is left."""
        try:
            code = self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end:\n{self.log}") from None
        left = self.members()
        assert not left, f"{[command(pid) for pid in left]} were left behind by\n{self.log}"
        return code

    def stop(self, number=signal.SIGTERM, within=PATIENCE):
        self.tell(number)
        return self.wait(within)

    def kill(self):
        """Whatever is left of it."""
        while pids := self.members():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.poll()
            time.sleep(0.003)
        self.process.wait(PATIENCE)


class Listening:
    """The address of a worker that listens."""

    def __init__(self, fleet):
        fleet.said(r"listening on http://127\.0\.0\.1:\d+")
        self.port = int(re.search(r"listening on http://127\.0\.0\.1:(\d+)", fleet.log)[1])

    def get(self, path):
        """Status and text."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metrics(self):
        """Every sample: name and labels, as they are written, to its value."""
        status, text = self.get("/metrics")
        assert status == 200
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}

    def total(self, name):
        return sum(value for key, value in self.metrics().items() if key.partition("{")[0] == name)


def alive(pid):
    """Whether a process is there and is not a zombie."""
    with suppress(OSError):
        return status(pid)[0] not in "ZX"
    return False


def gone(pid):
    """Wait until a process is no more."""
    eventually(lambda: not alive(pid), what=f"{pid} is still there: {command(pid)}")


def status(pid):
    """The fields of /proc/pid/stat after the name: state, parent, …"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()


def seconds_of_work(pid):
    """How long it has kept a processor busy."""
    fields = status(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def command(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return "no process"
