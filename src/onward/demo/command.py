"""``onward demo``: an example shop on a file of its own, a worker with two processes, and a stream of jobs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from onward.cli import output, top, values, web_server
from onward.cli.application import load
from onward.cli.command import Command, argument
from onward.cli.exits import CommandError, Exit
from onward.cli.listening import bound
from onward.demo.busy_story import BusyStory
from onward.demo.story import Story
from onward.demo.summary import Summary, summarise
from onward.job.states import LIVE

if TYPE_CHECKING:
    from onward.app import Onward

__all__ = ["COMMAND"]

_SHOP = "onward.demo.shop:jobs"
_BUSY_SHOP = "onward.demo.busy_shop:jobs"
_STREAM = 7.0  # seconds in which orders come in, where there is no terminal
_PATIENCE = 13.0  # seconds after that, for all to be finished
_SHUTDOWN = 4  # seconds for what runs when the shop closes
_HURRY = 1.0  # seconds between one signal and the next, if we are in a hurry
_GLANCE = 0.2
_LOG_LINES = 15


def demo(args: Namespace) -> int:
    """Open the shop, watch it, close it, and count."""
    if args.web:
        web_server.require_uvicorn()
    shop = _BUSY_SHOP if args.web else _SHOP
    with _ended_in_order(), _folder(args) as folder:
        settings = {"url": f"sqlite:///{folder / 'shop.db'}", "namespace": "default"}
        began = time.monotonic()
        with load(shop, settings) as app:
            story = _story(args)
            with _worker(shop, settings, folder) as worker:
                story.start()
                try:
                    with suppress(KeyboardInterrupt):  # which closes the shop
                        _watch(args, app, story, worker, began)
                finally:
                    story.stop()
                _close(args, worker)
            if story.failed is not None:
                raise story.failed
            summary = summarise(app, ids=story.ids, duplicates=story.duplicates, seconds=time.monotonic() - began)
            _show(args, summary)
            if args.keep is not None:
                output.say(args, f"kept: onward --url {settings['url']} job list")
            return Exit.FAILURE if summary.lost else Exit.OK


def _story(args: Namespace) -> Story:
    if args.web:
        return BusyStory(args.seconds)
    return Story(args.seconds or (None if _is_live(args) else _STREAM))


def _is_live(args: Namespace) -> bool:
    return top.has_screen() and not args.json


def _watch(args: Namespace, app: Onward, story: Story, worker: subprocess.Popen[bytes], began: float) -> None:
    """Show what happens, on a page, on the screen or in lines, until it is over."""
    if args.web:
        _serve(args, app, until=lambda: story.over or worker.poll() is not None)
        return
    over = _is_over(app, story, worker)
    if _is_live(args):
        top.watch(app, title=f"onward demo  {app.settings.url}", interval=0.5, until=over)
    else:
        _listen(args, app, story, over, began)


def _serve(args: Namespace, app: Onward, until: Callable[[], bool]) -> None:
    listening = bound(*args.listen)
    address = web_server.WebAddress(args.listen[0], listening.getsockname()[1])
    token = web_server.new_token()
    dashboard = web_server.dashboard_of(app, address, token=token, title="onward demo")
    with web_server.serving(dashboard.asgi, listening) as server:
        output.write(f"{address.url}#token={token}")
        sys.stdout.flush()
        output.say(args, "open it in a browser; Ctrl-C closes the shop")
        while server.is_alive() and not until():
            time.sleep(_GLANCE)


def _is_over(app: Onward, story: Story, worker: subprocess.Popen[bytes]) -> Callable[[], bool]:
    """Return what says whether all that was enqueued is finished, or takes too long."""
    latest: float | None = None

    def over() -> bool:
        nonlocal latest
        if worker.poll() is not None:
            return True
        if not story.over:
            return False
        latest = latest or time.monotonic() + _PATIENCE
        return not _unfinished(app) or time.monotonic() > latest

    return over


def _listen(args: Namespace, app: Onward, story: Story, over: Callable[[], bool], began: float) -> None:
    """Tell what happens, line by line."""
    _tell(args, 0, f"the shop opens: {app.settings.url}, and a worker with two processes")
    while not over():
        time.sleep(_GLANCE)
        for news in story.news():
            _tell(args, time.monotonic() - began, news)


def _tell(args: Namespace, seconds: float, what: str) -> None:
    output.say(args, [(f"{seconds:5.1f} s  ", "dim"), (what, "")])


def _unfinished(app: Onward) -> bool:
    counts = app.overview(1).counts
    return any(counts[state] for state in LIVE)


def _close(args: Namespace, worker: subprocess.Popen[bytes]) -> None:
    with output.working(args, "closing the shop"), suppress(KeyboardInterrupt):
        worker.terminate()
        worker.wait()


def _show(args: Namespace, summary: Summary) -> None:
    if args.json:
        output.json_line(summary.as_data())
    else:
        for line in summary.lines():
            output.write(line)


@contextmanager
def _worker(shop: str, settings: Mapping[str, str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start ``onward worker`` as a user would."""
    options = [word for name, value in settings.items() for word in (f"--{name}", value)]
    sizes = ["--processes", "2", "--concurrency", "4", "--shutdown-timeout", f"{_SHUTDOWN}s"]
    log = folder / "worker.log"
    with log.open("wb") as written:
        worker = subprocess.Popen(  # noqa: S603  our own interpreter
            [sys.executable, "-m", "onward", "worker", shop, *options, *sizes],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            cwd=folder,
            env={name: value for name, value in os.environ.items() if not name.startswith("ONWARD_")},
            process_group=0,  # Ctrl-C ends the demo, which ends the worker
        )
    try:
        yield worker
    finally:
        while worker.poll() is None:  # the demo was told to end: the second signal kills what runs
            worker.terminate()
            with suppress(subprocess.TimeoutExpired):
                worker.wait(_HURRY)
    if worker.returncode not in (0, -signal.SIGTERM):  # told to stop before it could listen, it had begun nothing
        told = log.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:]
        raise CommandError("\n".join([f"the worker ended with code {worker.returncode}:", *told]), Exit.FAILURE)


@contextmanager
def _folder(args: Namespace) -> Iterator[Path]:
    if args.keep is None:
        with tempfile.TemporaryDirectory(prefix="onward-demo-", ignore_cleanup_errors=True) as temporary:
            yield Path(temporary)
        return
    folder = Path(args.keep).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "shop.db").exists():
        raise CommandError(f"there is a shop in {folder} already: name another folder, or remove it", Exit.CONFIG)
    yield folder


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """End the worker when this process is told to end."""

    def end(number: int, _: FrameType | None) -> NoReturn:
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


COMMAND = Command(
    "demo",
    "watch an example shop at work: jobs that go well, that fail at first, and one that kills its process",
    demo,
    (
        argument("--seconds", "how long orders come in", metavar="N", type=values.duration),
        argument("--web", "show it on the dashboard, with more to look at, until Ctrl-C", action="store_true"),
        argument(
            "--listen",
            "where the dashboard is, as in 127.0.0.1:8321, which is the default",
            metavar="HOST:PORT",
            type=values.address,
            default=web_server.DEFAULT,
        ),
        argument("--keep", "keep the store, and the worker's log, in this folder", metavar="FOLDER", files=True),
    ),
    about="It works on a file in a temporary folder. On a terminal it is live until Ctrl-C; elsewhere it ends by itself, in "
    "less than half a minute. At the end it says what became of every job; exit code 1 if one was lost.",
)
