"""The application of these tests, copied into a folder of its own.  Its handlers write what happens into a diary there.

Those that hold something do so until the test creates a file: nothing here sleeps to let something happen.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

from onward import AsyncJobContext, Breaker, Discard, Fixed, JobContext, Limit, NoDelay, Onward  # noqa: F401  tests use them all
from onward.telemetry import JobDiscarded

HERE = Path(__file__).parent
LONG = 300  # seconds after which a handler gives up waiting: only when a test has failed

_settings = json.loads((HERE / "settings.json").read_text())
jobs = Onward(**_settings)
_kept = []


def note(what, **facts):
    line = json.dumps({"what": what, "pid": os.getpid(), "at": time.monotonic(), **facts}) + "\n"
    diary = os.open(HERE / "diary", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(diary, line.encode())  # whole, whatever else is written
    os.close(diary)


def allowed(name):
    return (HERE / f"{name}.go").exists()


def wait_for(name):
    deadline = time.monotonic() + LONG
    while not allowed(name) and time.monotonic() < deadline:
        time.sleep(0.002)


def wait_in(ctx, name):
    """Until this name is called, or that of this very delivery, or the run is to end."""
    deadline = time.monotonic() + LONG
    while not (allowed(name) or allowed(f"{name}-{ctx.delivery}") or ctx.cancelled) and time.monotonic() < deadline:
        time.sleep(0.002)


@jobs.on(JobDiscarded)
def alert(event):
    note("discarded", id=event.id, reason=event.reason)


# On threads and on the loop


@jobs.job
def plain(n: int = 0) -> int:
    note("plain", n=n)
    return os.getpid()


@jobs.job(queue="other")
def elsewhere() -> int:
    return os.getpid()


@jobs.job
def brief(n: int) -> None:
    note("brief", n=n)
    time.sleep(0.01)
    note("done", n=n)


@jobs.job
def hold(ctx: JobContext, name: str) -> int:
    note("holding", name=name, delivery=ctx.delivery, attempt=ctx.attempt)
    wait_in(ctx, name)
    note("held", name=name, delivery=ctx.delivery, cancelled=ctx.cancelled, lost=ctx.lost)
    return ctx.delivery


@jobs.job
def insist(name: str) -> None:
    """Does not care whether it was cancelled."""
    note("holding", name=name)
    wait_for(name)
    note("held", name=name)


@jobs.job
async def hold_async(ctx: JobContext, name: str) -> int:
    note("holding", name=name, delivery=ctx.delivery)
    try:
        while not allowed(name):  # noqa: ASYNC110  the test is another process
            await asyncio.sleep(0.002)
    except asyncio.CancelledError:
        note("cancelled", name=name)
        raise
    return ctx.delivery


@jobs.job
def hold_the_lock(ctx: JobContext, seconds: int) -> int:
    """In C, without giving the interpreter's lock away; only in its first run."""
    note("locking", delivery=ctx.delivery)
    if ctx.delivery == 1:
        ctypes.PyDLL(None).sleep(seconds)
    return ctx.delivery


@jobs.job
async def block_the_loop(seconds: float) -> int:
    note("blocking")
    time.sleep(seconds)  # noqa: ASYNC251  that is the point
    return os.getpid()


@jobs.job(timeout=0.5)
def deaf(ctx: JobContext, name: str) -> None:
    """Ignores its time-out."""
    note("holding", name=name, attempt=ctx.attempt)
    while not allowed(name):
        with contextlib.suppress(BaseException):
            wait_for(name)


@jobs.job(timeout=4)
def punctual(ctx: JobContext, name: str) -> str:
    note("holding", name=name)
    wait_in(ctx, name)
    note("held", name=name)
    return name


@jobs.job(timeout=0.01)
def close_call(n: int) -> None:
    """Ends about when its time is out."""
    end = time.perf_counter() + 0.0099 + n % 10 * 0.00002
    while time.perf_counter() < end:
        pass


@jobs.job
def grow(megabytes: int) -> int:
    _kept.append(bytearray(b"x") * (megabytes << 20))
    return os.getpid()


@jobs.job
def start_a_program(name: str) -> None:
    """And wait for it, as handlers do."""
    child = os.spawnl(os.P_NOWAIT, sys.executable, sys.executable, "-c", f"import time; time.sleep({LONG})")
    note("holding", name=name, child=child)
    os.waitpid(child, 0)


@jobs.job
def orphan() -> None:
    """Leaves a process behind whose parent is dead."""
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            os.execv("/bin/true", ["/bin/true"])
        os._exit(0)
    os.waitpid(child, 0)


# Those that end their process, or wound it


@jobs.job
def die(number: int = signal.SIGKILL) -> None:
    note("dying")
    os.kill(os.getpid(), number)
    wait_for("never")


@jobs.job(max_crashes=1)
def die_once() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    wait_for("never")


@jobs.job
def die_at(name: str) -> None:
    note("holding", name=name)
    wait_for(name)
    os.kill(os.getpid(), signal.SIGKILL)
    wait_for("never")


@jobs.job
def leave(code: int) -> None:
    os._exit(code)


@jobs.job
def kill_the_pump(ctx: JobContext) -> int:
    if ctx.delivery == 1:
        (pump,) = [thread for thread in threading.enumerate() if thread.name == "onward-pump"]
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(pump.ident), ctypes.py_object(SystemExit))
        wait_for("never")
    return ctx.delivery


@jobs.job
def babble(ctx: JobContext) -> int:
    """Writes to every socket that it finds."""
    if ctx.delivery == 1:
        for link in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(link.name))) as found:
                found.send(b"what a lovely day " * 20)
        wait_for("never")
    return ctx.delivery


@jobs.job
def step_and_hold(ctx: JobContext) -> list[int]:
    ctx.step("one", note, "stepped", number=1)
    ctx.step("two", note, "stepped", number=2)
    note("holding", delivery=ctx.delivery)
    if ctx.delivery == 1:
        wait_for("never")
    ctx.step("three", note, "stepped", number=3)
    return [ctx.delivery]


def charge_and_die(delivery: int, key: str) -> str:
    note("charged", delivery=delivery, key=key)
    if delivery == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return key


@jobs.job
def die_before_the_note(ctx: JobContext) -> str:
    return ctx.step("charge", charge_and_die, ctx.delivery, ctx.key("charge"))


# In processes of their own


@jobs.job(isolation="process")
def alone() -> int:
    return os.getpid()


@jobs.job(isolation="process")
async def alone_async(ctx: JobContext) -> int:
    ctx.progress(0.25)
    return os.getpid()


@jobs.job(isolation="process")
def hold_alone(ctx: JobContext, name: str) -> int:
    note("holding", name=name, delivery=ctx.delivery)
    ctx.progress(0.5, f"half of {name}")
    wait_in(ctx, name)
    note("held", name=name, delivery=ctx.delivery, cancelled=ctx.cancelled)
    return os.getpid()


@jobs.job(isolation="process")
def hold_the_lock_alone(ctx: JobContext) -> int:
    note("locking", delivery=ctx.delivery)
    if ctx.delivery == 1:
        ctypes.PyDLL(None).sleep(LONG)
    return ctx.delivery


@jobs.job(isolation="process", max_retries=1, retry=NoDelay())
def step_alone(ctx: JobContext) -> list[int]:
    first = ctx.step("pid", os.getpid)
    if ctx.attempt == 1:
        raise ConnectionError
    ctx.sleep("a moment", 1)
    approved = ctx.wait_for("approved", timeout=600, returns=int)
    return [first, os.getpid(), approved or 0]


@jobs.job(isolation="process")
async def step_async_alone(ctx: AsyncJobContext, path: str) -> int:
    """The effect is a line in a file; the first process dies after it."""
    count = await ctx.step("count", count_calls, path)
    await ctx.step("again", count_calls, path)
    if ctx.delivery == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return count


def count_calls(path: str) -> int:
    with Path(path).open("a+") as file:
        file.write("x")
    return len(Path(path).read_text())


@jobs.job(isolation="process", timeout=0.5)
def hang_alone() -> None:
    note("hanging")
    ctypes.PyDLL(None).sleep(LONG)


@jobs.job(isolation="process", timeout=0.2)
async def hang_async_alone() -> None:
    await asyncio.sleep(LONG)


@jobs.job(isolation="process", timeout=1)
def start_a_program_alone(name: str) -> None:
    start_a_program(name)


@jobs.job(isolation="process", max_memory=300_000_000)
def devour() -> int:
    return len(bytearray(600_000_000))


@jobs.job(isolation="process")
def say_the_unsayable(ctx: JobContext) -> None:
    ctx.progress(0.5, "half a character: \ud800")
    raise Discard("the other half: \udfff")


@jobs.job(isolation="process")
def babble_alone() -> None:
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(link.name))) as found:
            found.send(b"what a lovely day " * 20)
    wait_for("never")


if jobs.backend.capabilities.lanes:

    @jobs.job(
        isolation="process",
        breaker=Breaker(failures=3, of=3, pause=3600, longest=3600, on=ConnectionError),
        max_retries=50,
        retry=NoDelay(),
    )
    def refused_alone() -> None:
        note("refused")
        raise ConnectionError
