"""``python -m onward.entry.isolated``: a process for single jobs.  Started by a worker process, never by hand."""

from __future__ import annotations

import os
import socket
import sys
import traceback

import msgspec

from onward import config
from onward.base.ipc import Line
from onward.cli.log_lines import listen
from onward.entry.child import leave_signals_to_others, load_application
from onward.supervisor.options import ProcessOptions
from onward.supervisor.subreaper import end_with_parent
from onward.worker.diagnostics.stacks import Stacks
from onward.worker.isolated import Imported
from onward.worker.isolated_child import DECODER, Solo

__all__ = ["main"]


def main(options_json: str, line_fd: str) -> None:
    """Import the application, then run what the worker hands over."""
    end_with_parent()
    leave_signals_to_others()  # the worker decides
    os.set_inheritable(int(line_fd), False)  # noqa: FBT003
    line = Line(socket.socket(fileno=int(line_fd)), DECODER)
    options = msgspec.json.decode(options_json, type=ProcessOptions)
    sys.dont_write_bytecode |= options.tell_files
    listen(options.log_level, options.log_format)
    config.unknown_variables()  # which the command has told of
    try:
        app = load_application(options)
        leave_signals_to_others()  # even if the application wants to hear them
    except BaseException as error:  # noqa: BLE001  whatever an application does while it is imported
        text = "".join(traceback.format_exception(error))
        line.send(Imported(f"the application cannot be imported in a process of its own: {text}"))
        return
    solo = Solo(app.parts().runtime, line)
    with Stacks(solo.whereabouts):
        solo.serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
