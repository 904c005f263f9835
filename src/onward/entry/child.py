"""``python -m onward.entry.child``: one worker process, started by a supervisor."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType

import msgspec

from onward import config
from onward.app import Onward
from onward.backends.opening import located
from onward.base.ipc import IpcChannel
from onward.cli.application import load
from onward.cli.exits import CommandError, Exit, code_of
from onward.cli.log_lines import listen
from onward.errors import BackendError, BackendUnavailable
from onward.supervisor.child_link import Supervised
from onward.supervisor.messages import DECODE_ABOVE, Failed, Hello
from onward.supervisor.options import ProcessOptions
from onward.supervisor.run_board import RunBoard
from onward.supervisor.subreaper import end_with_parent, name_process
from onward.worker.diagnostics.stacks import Stacks
from onward.worker.inflight import Quota
from onward.worker.options import WorkerOptions
from onward.worker.worker import Worker

__all__ = ["leave_signals_to_others", "load_application", "main", "prepare_process", "serve"]

_EXITS_WITHIN = 5.0  # seconds for the application's own code at exit


def main(channel_fd: str, board_fd: str, options_json: str) -> int:
    """Import the application, and serve it until there is nothing to do or the supervisor is gone."""
    os.set_inheritable(int(board_fd), False)  # noqa: FBT003
    end, options = prepare_process(channel_fd, options_json)
    name_process("onward-worker")
    try:
        app = load_application(options)
        leave_signals_to_others()  # even if the application has set handlers
    except BaseException as error:  # noqa: BLE001  an application may even exit while it is imported
        IpcChannel(end, DECODE_ABOVE).send(_failed(error, options))
        return Exit.OK
    return serve(app, options, end, int(board_fd))


def serve(app: Onward, options: ProcessOptions, end: socket.socket, board_fd: int) -> int:
    """Open the store, report that, and run jobs until there is nothing to do or the supervisor is gone."""
    channel = IpcChannel(end, DECODE_ABOVE)
    try:
        app.connect()
        worker = _worker(app, options, RunBoard(board_fd))
    except BaseException as error:  # noqa: BLE001  the application's own code may be called
        channel.send(_failed(error, options))
        return Exit.OK
    end_with_parent(on=False)
    channel.send(
        Hello(
            # The supervisor opens no job, and a policy may be code.
            settings=dataclasses.replace(
                located(app.settings, app.backend), signing_keys=None, default_retry=None, queue_retry={}
            ),
            jobs=sorted(app.names),
            queues=list(worker.options.queues),
            files=_own_files() if options.tell_files else [],
        )
    )
    with Stacks(worker.whereabouts):
        code = Supervised(worker, channel, rescued=app.rescued).run()
    threading.Thread(target=_exit_late, daemon=True).start()
    app.close()
    return code


def prepare_process(socket_fd: str, options_json: str) -> tuple[socket.socket, ProcessOptions]:
    """Set up signals, logging and the socket of a process that has just started, before it imports the application."""
    end_with_parent()  # while this process imports the application it reads no messages
    leave_signals_to_others()
    os.set_inheritable(int(socket_fd), False)  # noqa: FBT003  a program that a handler starts must not keep it open
    options = msgspec.json.decode(options_json, type=ProcessOptions)
    sys.dont_write_bytecode |= options.tell_files  # a file saved twice within a second would look like its byte-code
    listen(options.log_level, options.log_format)
    config.unknown_variables()  # the command has warned of them
    return socket.socket(fileno=int(socket_fd)), options


def load_application(options: ProcessOptions) -> Onward:
    """Load the application that the command line names, with all its jobs."""
    app = load(options.app, options.settings, options.imports)
    if not app.backend.capabilities.shared:
        raise CommandError(
            f"{app.settings.url} is visible to one process only: run such an application with jobs.worker(), or give it "
            f"a store that processes share, such as sqlite:///jobs.db",
            Exit.CONFIG,
        )
    return app


def _worker(app: Onward, options: ProcessOptions, board: RunBoard) -> Worker:
    weighted = any(options.queues.values())
    queues = options.queues if weighted else list(options.queues) or app.queues_of_jobs()
    quota = Quota(options.max_jobs, recycle_after=options.recycle_after, until_empty=options.until_empty)
    quota.count = board.count
    app.metrics.count_into(board.counters)
    options_json = msgspec.json.encode(options).decode()
    preloads = options.preload and sys.platform == "linux"  # elsewhere a fork after an import is not safe
    return Worker(
        app.parts(ticks=options.ticks, deployed_at=options.deployed_at),
        WorkerOptions.check(queues, options.concurrency, options.limits, options.shutdown_timeout),
        recorder=board,
        quota=quota,
        isolated_program=(sys.executable, "-m", "onward.entry.isolated", options_json),
        template_program=(sys.executable, "-m", "onward.entry.template", options_json) if preloads else None,
    )


def _failed(error: BaseException, options: ProcessOptions) -> Failed:
    files = sorted({*_own_files(), *_files_of(error, options)})
    if isinstance(error, Exception) and (code := code_of(error)) is not None:
        # The message has the driver's words; the place in Onward's code that called the driver helps no user.
        cause = None if isinstance(error, BackendError) else error.__cause__
        where = "" if cause is None else _traceback(cause)
        message = f"{error}\n{where}".rstrip()
        return Failed(message=message, code=code, files=files, passing=isinstance(error, BackendUnavailable))
    text = "".join(traceback.format_exception(error)).rstrip()
    return Failed(message=f"the application cannot be imported\n{text}", code=Exit.CONFIG, files=files)


def _files_of(error: BaseException, options: ProcessOptions) -> Iterator[str]:
    """Yield the files that may have the error: a module whose import fails is not among the imported ones."""
    for name in (options.app.partition(":")[0], *options.imports):
        with suppress(Exception):
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.origin is not None:
                yield spec.origin
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, SyntaxError) and seen.filename is not None:
            yield seen.filename
        yield from (
            frame.filename for frame in traceback.extract_tb(seen.__traceback__) if Path(frame.filename).is_file()
        )
        seen = seen.__cause__


def _traceback(error: BaseException) -> str:
    """Return the traceback from where the user's own code begins; nothing if it was never reached."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(
        ("importlib", "onward.cli.", "onward.entry.")
    ):
        trace = trace.tb_next
    return "" if trace is None else "".join(traceback.format_exception(type(error), error, trace))


def _own_files() -> list[str]:
    """Return the files of the modules that were imported from the user's own folders."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    installed = tuple(str(Path(path)) for path in (sys.prefix, sys.base_prefix))
    return sorted(str(file) for file in files if file and not str(file).startswith(installed))


def leave_signals_to_others() -> None:
    """Catch signals and do nothing: systemd and containers signal every process, and the supervisor decides."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _do_nothing)  # not ignored: that would be inherited by the programs that handlers start


def _do_nothing(number: int, frame: FrameType | None) -> None: ...


def _exit_late() -> None:
    threading.Event().wait(_EXITS_WITHIN)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
